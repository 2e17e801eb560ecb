"""How does a worker use the host's runtime? Through this `Runtime`, one call a verb.

Stateless: each call is one connection. A daemon that is away, restarting or silent is
`Unavailable("runtime_unreachable")`; every verb is safe to repeat.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from buildqueue.backends.base import (
    InstanceStatus,
    ReplicaStatus,
    WorkloadSpec,
    WorkloadStatus,
)
from buildqueue.backends.localruntime.places import Places
from buildqueue.exceptions import Rejected, Unavailable

ANSWER_BYTES = 8 * 1024 * 1024
# Long enough to drain and end several instances one after the other.
SLOW_SECONDS = 120.0
QUICK_SECONDS = 15.0


class LocalRuntime:
    """The local runtime of this host, found through its root."""

    name = "local"

    def __init__(self, root: Path) -> None:
        try:
            self._places = Places.below(root)
        except OSError as error:
            raise _unreachable(str(error)) from error

    def start(self, spec: WorkloadSpec) -> InstanceStatus:
        """Start an instance beside what runs; see `Runtime.start`."""
        found = self._ask(
            "start",
            SLOW_SECONDS,
            workload_id=spec.workload_id,
            instance_id=spec.instance_id,
            reference=spec.reference,
            env=dict(spec.env),
            replicas=spec.replicas,
            resources=asdict(spec.resources),
            writable=spec.writable,
            writable_path=spec.writable_path,
        )
        return _instance(found)

    def promote(self, workload_id: str, instance_id: str) -> WorkloadStatus:
        """Lead the address to the instance; see `Runtime.promote`."""
        found = self._ask(
            "promote", SLOW_SECONDS, workload_id=workload_id, instance_id=instance_id
        )
        return _workload(found)

    def scale(self, workload_id: str, replicas: int) -> WorkloadStatus:
        """Run so many replicas of the active instance; see `Runtime.scale`."""
        found = self._ask(
            "scale", SLOW_SECONDS, workload_id=workload_id, replicas=replicas
        )
        return _workload(found)

    def stop_instance(self, workload_id: str, instance_id: str) -> None:
        """End one instance; absent is fine."""
        self._ask(
            "stop_instance",
            SLOW_SECONDS,
            workload_id=workload_id,
            instance_id=instance_id,
        )

    def stop(self, workload_id: str) -> None:
        """End all instances; the address is kept for the next start."""
        self._ask("stop", SLOW_SECONDS, workload_id=workload_id)

    def delete(self, workload_id: str) -> None:
        """End all, free the address, and refuse this workload for ever."""
        self._ask("delete", SLOW_SECONDS, workload_id=workload_id)

    def status(self, workload_id: str) -> WorkloadStatus | None:
        """Tell what is there; None when the workload is unknown or deleted."""
        found = self._ask("status", QUICK_SECONDS, workload_id=workload_id)
        return None if found is None else _workload(found)

    def workloads(self) -> list[WorkloadStatus]:
        """Tell all that is there."""
        return [_workload(one) for one in self._ask("workloads", QUICK_SECONDS)]

    def logs(self, workload_id: str, instance_id: str, tail: int) -> list[str]:
        """Return the last lines of the instance's output, oldest first."""
        found = self._ask(
            "logs",
            QUICK_SECONDS,
            workload_id=workload_id,
            instance_id=instance_id,
            tail=tail,
        )
        return list(found)

    def ping(self) -> Mapping[str, object]:
        """Return the daemon's pid and version."""
        found: Mapping[str, object] = self._ask("ping", QUICK_SECONDS)
        return found

    def shut_down(self, *, keep_instances: bool) -> None:
        """End the daemon, and its instances unless they are to be kept."""
        self._ask("shutdown", SLOW_SECONDS, keep_instances=keep_instances)

    def _ask(self, verb: str, seconds: float, **arguments: object) -> Any:
        request = json.dumps({"verb": verb, "arguments": arguments}).encode() + b"\n"
        try:
            with self._places.connect(seconds) as control:
                control.sendall(request)
                line = _line(control)
        except OSError as error:
            raise _unreachable(str(error)) from error
        try:
            answer = json.loads(line)
        except ValueError as error:
            raise _unreachable("it broke off its answer") from error
        if answer["ok"]:
            return answer["result"]
        kind = Rejected if answer["error"] == "rejected" else Unavailable
        raise kind(answer["code"], answer["message"], detail=answer["detail"])


def _line(control: socket.socket) -> bytes:
    with control.makefile("rb") as lines:
        return lines.readline(ANSWER_BYTES)


def _workload(found: dict[str, Any]) -> WorkloadStatus:
    instances = tuple(_instance(one) for one in found.pop("instances"))
    return WorkloadStatus(instances=instances, **found)


def _instance(found: dict[str, Any]) -> InstanceStatus:
    replicas = tuple(ReplicaStatus(**one) for one in found.pop("replicas"))
    return InstanceStatus(replicas=replicas, **found)


def _unreachable(why: str) -> Unavailable:
    return Unavailable(
        "runtime_unreachable",
        "the host's local runtime does not answer; a worker starts it within seconds",
        detail=why,
    )
