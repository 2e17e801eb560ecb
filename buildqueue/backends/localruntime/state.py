"""What does the runtime want to be true, and what did it start? One file says so.

The file is replaced as a whole (written beside, synced, renamed), so after a crash
it holds the state before a change or after it, never a part. It holds the env of
instances that may have to be started again, sealed (`sealing`), and the env of an
instance that will not is dropped with the change that ends it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from buildqueue.backends.base import Resources
from buildqueue.backends.localruntime.identity import ProcessIdentity
from buildqueue.exceptions import Unavailable

FORMAT = 2


class UnreadableState(Exception):
    """The file exists but is not ours: a person has to look, nothing is overwritten."""


class ReplicaKey(NamedTuple):
    """Names one replica of one instance on this host."""

    workload_id: str
    instance_id: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One of an instance's equal parts, and the processes that run it."""

    number: int
    port: int | None = None
    state: str = "starting"  # starting | running | exited | stopped
    keeper: ProcessIdentity | None = None  # the process that looks after it
    child: ProcessIdentity | None = None  # what the keeper launched
    exit_code: int | None = None
    exit_reason: str | None = None
    restarts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One instance: what to run, how often, and what runs."""

    instance_id: str
    reference: str
    sealed_env: str = ""
    wanted: int = 1  # replicas; one with this number or above is to be ended
    resources: Resources = field(default_factory=Resources)
    writable: bool = False
    writable_path: str | None = None
    promoted: bool = False
    stopped: bool = False  # told to end
    confined: str = "none"
    replicas: tuple[Replica, ...] = ()  # by number

    @property
    def state(self) -> str:
        """Return the state of all its replicas taken together."""
        states = {replica.state for replica in self.replicas}
        if self.stopped:
            return "stopped"
        if "exited" in states:
            return "exited"
        complete = states == {"running"} and len(self.replicas) >= self.wanted
        return "running" if complete else "starting"

    @property
    def running(self) -> list[Replica]:
        """Return the replicas that have a keeper, those to be ended included."""
        return [replica for replica in self.replicas if replica.keeper is not None]

    @property
    def serving(self) -> list[Replica]:
        """Return the replicas that may get traffic once they accept it."""
        return [replica for replica in self.replicas if replica.number < self.wanted]

    @property
    def surplus(self) -> list[Replica]:
        """Return the replicas that are to be ended, the last one first."""
        many = [replica for replica in self.replicas if replica.number >= self.wanted]
        return many[::-1]

    def replica(self, number: int) -> Replica | None:
        """Return the replica with this number."""
        return next((one for one in self.replicas if one.number == number), None)

    def with_replica(self, replica: Replica) -> Instance:
        """Return a copy in which the replica stands."""
        rest = [one for one in self.replicas if one.number != replica.number]
        ordered = sorted([*rest, replica], key=lambda one: one.number)
        return replace(self, replicas=tuple(ordered))

    def without_replica(self, number: int) -> Instance:
        """Return a copy without the replica."""
        rest = (one for one in self.replicas if one.number != number)
        return replace(self, replicas=tuple(rest))


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One workload: its address for life, and what stands behind it."""

    workload_id: str
    port: int | None = None  # of the address
    active: str | None = None
    wanted: str = "stopped"  # running | stopped
    deleted: bool = False  # a tombstone: never started again
    instances: Mapping[str, Instance] = field(default_factory=dict)

    def with_instance(self, instance: Instance) -> Workload:
        """Return a copy in which the instance stands."""
        return replace(
            self, instances={**self.instances, instance.instance_id: instance}
        )

    def without(self, instance_id: str) -> Workload:
        """Return a copy without the instance."""
        rest = {key: one for key, one in self.instances.items() if key != instance_id}
        return replace(self, instances=rest)


class Store:
    """The workloads in memory, equal to the file at all times."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._workloads = _read(path)

    def get(self, workload_id: str) -> Workload | None:
        """Return the workload, tombstones included."""
        return self._workloads.get(workload_id)

    def all(self) -> list[Workload]:
        """Return all workloads, tombstones included, in the order of their coming."""
        return list(self._workloads.values())

    def put(self, workload: Workload) -> Workload:
        """Keep the workload: durable on return, unchanged when it raises."""
        changed = {**self._workloads, workload.workload_id: workload}
        try:
            _write(self._path, changed)
        except OSError as error:
            raise Unavailable(
                "state_not_saved",
                "the runtime cannot write its state: is the disk full?",
                detail=str(error),
            ) from error
        self._workloads = changed
        return workload

    def ports(self) -> set[int]:
        """Return all ports that belong to an address or an instance."""
        taken = {one.port for one in self._workloads.values()}
        for workload in self._workloads.values():
            for instance in workload.instances.values():
                taken |= {replica.port for replica in instance.replicas}
        return {port for port in taken if port is not None}


def _write(path: Path, workloads: Mapping[str, Workload]) -> None:
    content = {
        "format": FORMAT,
        "workloads": [asdict(workload) for workload in workloads.values()],
    }
    beside = path.with_name(f"{path.name}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read(path: Path) -> dict[str, Workload]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise UnreadableState(f"{path} is not JSON: {error}") from error
    try:
        if content["format"] != FORMAT:
            raise UnreadableState(
                f"{path} has format {content['format']}, not {FORMAT}"
            )
        found = [_workload(entry) for entry in content["workloads"]]
    except (KeyError, TypeError) as error:
        raise UnreadableState(f"{path} has another shape: {error!r}") from error
    return {workload.workload_id: workload for workload in found}


def _workload(entry: dict[str, object]) -> Workload:
    instances = entry.pop("instances")
    if not isinstance(instances, dict):
        raise TypeError("instances")
    found = {key: _instance(one) for key, one in instances.items()}
    return Workload(**{**entry, "instances": found})  # type: ignore[arg-type]  # JSON


def _instance(entry: dict[str, object]) -> Instance:
    replicas, resources = entry.pop("replicas"), entry.pop("resources")
    if not isinstance(replicas, list) or not isinstance(resources, dict):
        raise TypeError("replicas")
    return Instance(
        **entry,  # type: ignore[arg-type]  # JSON
        resources=Resources(**resources),
        replicas=tuple(_replica(one) for one in replicas),
    )


def _replica(entry: dict[str, object]) -> Replica:
    for name in ("keeper", "child"):
        found = entry[name]
        if isinstance(found, dict):
            entry[name] = ProcessIdentity(**found)
    return Replica(**entry)  # type: ignore[arg-type]  # JSON
