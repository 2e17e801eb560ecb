"""What do a builder and a runtime promise? Values in, values out, three errors.

A backend is stateless between calls, never touches the database, and raises only
`Unavailable` (try again), `Rejected` (the input is at fault) or `Cancelled`.
Every call that may take long takes a line callback and a deadline in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

LineCallback = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """One source tree to turn into something that can be deployed."""

    target_id: str  # the agent's or connector's id: the artifact's name holds it
    version: str
    source_dir: Path  # an extracted tree; the builder copies, never changes it
    timeout_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltArtifact:
    """What a build left behind: deployable again at any time by its reference."""

    reference: str  # what a runtime of the same backend can deploy
    digest: str  # "sha256:..." over the content
    ports: tuple[int, ...]  # as declared by EXPOSE, may be empty
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What each replica may use at most; None: as much as the runtime gives."""

    memory_mb: int | None = None
    cpus: float | None = None
    processes: int | None = None  # and threads


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSpec:
    """One instance of a workload to run."""

    workload_id: str  # the agent's or connector's id
    instance_id: str  # the deployment's id: a new one for each deploy
    reference: str  # of a BuiltArtifact
    env: Mapping[str, str] = field(default_factory=dict)  # values are secret
    replicas: int = 1
    resources: Resources = field(default_factory=Resources)
    writable: bool = False  # a folder that outlives instances and versions
    writable_path: str | None = None  # where it is seen, if the runtime can


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatus:
    """What the runtime sees of one replica of an instance."""

    number: int  # from 0
    state: str  # starting | running | exited | stopped
    pid: int | None
    port: int | None  # loopback port of the replica itself
    exit_code: int | None  # negative: the signal that ended it
    exit_reason: str | None = None  # "out_of_memory" where that is known
    restarts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStatus:
    """What the runtime sees of one instance.

    Running: every replica runs. Process, port and exit are those of the first replica
    that has one; restarts are those of all.
    """

    instance_id: str
    state: str  # starting | running | exited | stopped | environment_unreadable
    pid: int | None
    port: int | None  # loopback port of the instance itself
    exit_code: int | None  # negative: the signal that ended it
    restarts: int
    confined: str  # "uid", "namespace" or "none"
    replicas_running: int
    exit_reason: str | None = None  # "out_of_memory" where that is known
    replicas: tuple[ReplicaStatus, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadStatus:
    """A workload: its address for life and the instances behind it."""

    workload_id: str
    address: str | None  # http://127.0.0.1:port, the same for life
    active: str | None  # instance id that the address leads to
    replicas: int  # wanted of the active instance; 0 without one
    instances: tuple[InstanceStatus, ...]


class Builder(Protocol):
    """Turns a source tree into an artifact."""

    name: str

    def validate_source(self, source_dir: Path) -> None:
        """Refuse a tree that `build` would refuse, without building it."""

    def build(self, request: BuildRequest, on_line: LineCallback) -> BuiltArtifact:
        """Build; the same request again replaces or reuses what is there."""

    def remove(self, reference: str) -> None:
        """Delete the artifact; absent is fine."""

    def exists(self, reference: str) -> bool:
        """Tell whether the artifact can be deployed."""

    def targets(self) -> list[str]:
        """Return the ids of the targets of which something may be here."""

    def clean(
        self, target_id: str, *, keep: Collection[str], older_than_seconds: float
    ) -> int:
        """Delete what is here of the target, as old as that, and not to be kept.

        That is artifacts, and what builds that died have left. Returns how many;
        none while a build of the target is under way.
        """


class Runtime(Protocol):
    """Runs artifacts behind one address for life per workload."""

    name: str

    def start(self, spec: WorkloadSpec) -> InstanceStatus:
        """Start an instance beside what runs; traffic stays where it is.

        Any other instance of the workload that was never promoted is ended first, so a
        repeat after a crash leaves none behind.
        """

    def promote(self, workload_id: str, instance_id: str) -> WorkloadStatus:
        """Lead the workload's address to the instance, drain and end the others."""

    def scale(self, workload_id: str, replicas: int) -> WorkloadStatus:
        """Run so many replicas of the active instance, without a failed request.

        Returns once those that are too many are drained and gone, and those that were
        missing are started: they get traffic when they accept it.
        """

    def stop_instance(self, workload_id: str, instance_id: str) -> None:
        """End one instance; absent is fine."""

    def stop(self, workload_id: str) -> None:
        """End all instances; the address is kept for the next start."""

    def delete(self, workload_id: str) -> None:
        """End all, free the address, and refuse this workload for ever. Idempotent."""

    def status(self, workload_id: str) -> WorkloadStatus | None:
        """Tell what is there; None when the workload is unknown."""

    def workloads(self) -> list[WorkloadStatus]:
        """Tell all that is there."""

    def logs(self, workload_id: str, instance_id: str, tail: int) -> list[str]:
        """Return the last lines of the instance's output, oldest first."""
