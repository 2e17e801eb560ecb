"""Is this a spec the runtime can run? What JSON brought is looked at once, here."""

from __future__ import annotations

from collections.abc import Mapping

from buildqueue.backends.base import Resources, WorkloadSpec
from buildqueue.backends.localruntime.plans import MOST_REPLICAS, checked_id
from buildqueue.backends.localruntime.storage import checked_path
from buildqueue.exceptions import Rejected

LEAST_MEMORY_MB = 16


def read_spec(given: Mapping[str, object]) -> WorkloadSpec:
    """Return the spec that a request of the control socket describes."""
    reference, resources = given["reference"], given["resources"]
    if not isinstance(reference, str) or not isinstance(resources, dict):
        raise Rejected("wrong_arguments", "reference is a string, resources an object")
    path = given["writable_path"]
    if not isinstance(path, str | None):
        raise Rejected("wrong_arguments", "writable_path is a string")
    return WorkloadSpec(
        workload_id=checked_id("workload", given["workload_id"]),
        instance_id=checked_id("instance", given["instance_id"]),
        reference=reference,
        env=_env(given["env"]),
        replicas=checked_replicas(given["replicas"]),
        resources=_resources(resources),
        writable=bool(given["writable"]),
        writable_path=checked_path(path),
    )


def checked_replicas(given: object) -> int:
    """Return the number, or refuse it."""
    if type(given) is int and 1 <= given <= MOST_REPLICAS:
        return given
    raise Rejected(
        "invalid_replicas",
        f"the number of replicas has to be 1 to {MOST_REPLICAS}; to run none, stop it",
    )


def _env(given: object) -> dict[str, str]:
    if not isinstance(given, dict):
        raise Rejected("wrong_arguments", "env is an object")
    if not all(isinstance(value, str) for value in given.values()):
        raise Rejected("invalid_environment", "names and values have to be strings")
    return given


def _resources(given: Mapping[str, object]) -> Resources:
    return Resources(
        memory_mb=_whole("memory_mb", given.get("memory_mb"), least=LEAST_MEMORY_MB),
        cpus=_cpus(given.get("cpus")),
        processes=_whole("processes", given.get("processes"), least=1),
    )


def _whole(name: str, given: object, *, least: int) -> int | None:
    if given is None:
        return None
    if type(given) is int and given >= least:
        return given
    raise Rejected(
        "invalid_resources", f"{name} has to be a whole number, {least} or more"
    )


def _cpus(given: object) -> float | None:
    if given is None:
        return None
    if isinstance(given, int | float) and 0.01 <= given <= 1024:
        return float(given)
    raise Rejected("invalid_resources", "cpus has to be a number from 0.01 to 1024")
