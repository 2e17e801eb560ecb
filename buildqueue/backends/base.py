"""What do a builder and a runtime promise? Values in, values out, three errors.

A backend is stateless between calls, never touches the database, and raises only
`Unavailable` (try again), `Rejected` (the input is at fault) or `Cancelled`.
Every call that may take long takes a line callback and a deadline in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
class WorkloadSpec:
    """One instance of a workload to run."""

    workload_id: str  # the agent's or connector's id
    instance_id: str  # the deployment's id: a new one for each deploy
    reference: str  # of a BuiltArtifact
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStatus:
    """What the runtime sees of one instance."""

    instance_id: str
    state: str  # starting | running | exited | stopped
    pid: int | None
    port: int | None  # loopback port of the instance itself
    exit_code: int | None  # negative: the signal that ended it
    restarts: int
    confined: str  # "uid", "namespace" or "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadStatus:
    """A workload: its address for life and the instances behind it."""

    workload_id: str
    address: str | None  # http://127.0.0.1:port, the same for life
    active: str | None  # instance id that the address leads to
    instances: tuple[InstanceStatus, ...]


class Builder(Protocol):
    """Turns a source tree into an artifact."""

    name: str

    def build(self, request: BuildRequest, on_line: LineCallback) -> BuiltArtifact:
        """Build; the same request again replaces or reuses what is there."""

    def remove(self, reference: str) -> None:
        """Delete the artifact; absent is fine."""

    def exists(self, reference: str) -> bool:
        """Tell whether the artifact can be deployed."""


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
