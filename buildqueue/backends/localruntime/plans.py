"""How does a bundle become a launch? Confined, bounded, with folders of its own.

An instance sees its bundle read-only, a scratch folder that is its home and, if it asks,
a folder for life; all lie outside the runtime's own folder, which no instance can enter.
Its environment is what the bundle and the deploy say, then WRITABLE_PATH, HOST and PORT:
nothing of the daemon's.
"""

from __future__ import annotations

import re
import resource
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from buildqueue.backends.base import Resources
from buildqueue.backends.bundles import read_bundle
from buildqueue.backends.confinement import Confinement
from buildqueue.backends.launching import LaunchPlan, Limits, with_prelude
from buildqueue.backends.localruntime.cgroups import Group, Groups
from buildqueue.backends.localruntime.ports import LOOPBACK
from buildqueue.backends.localruntime.state import Instance, ReplicaKey
from buildqueue.backends.localruntime.storage import Storage
from buildqueue.exceptions import Rejected

PROCESSES = 512
MOST_REPLICAS = 16
WRITABLE_NAME = "WRITABLE_PATH"

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLimits(Limits):
    """How much of the host one program may take where no control group says so.

    Memory is what one process writes to, in all its own mappings. The kernel counts
    processes and threads by user, so it is those of all replicas: a fork bomb ends there.
    """

    processes: int | None = None
    memory_mb: int | None = None

    def settings(self) -> list[tuple[int, int, int]]:
        """Return these limits; the others are set by the confinement."""
        found = []
        if self.processes is not None:
            found.append((resource.RLIMIT_NPROC, self.processes, self.processes))
        if self.memory_mb is not None:
            size = self.memory_mb * 1024 * 1024
            found.append((resource.RLIMIT_DATA, size, size))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """Makes launch plans for the bundles below one root."""

    root: Path
    confinement: Confinement
    groups: Groups = field(default_factory=Groups)

    @property
    def storage(self) -> Storage:
        """Return the folders that instances may write to."""
        return Storage(root=self.root, confinement=self.confinement)

    def plan(
        self,
        key: ReplicaKey,
        instance: Instance,
        *,
        env: Mapping[str, str],
        port: int,
    ) -> LaunchPlan:
        """Return the launch; raises `Rejected` when the bundle or the env cannot be.

        Makes the folders that are absent, so a repeat finds them as they were left.
        """
        bundle = read_bundle(self.root, instance.reference)
        writable, mounts = [self.storage.scratch(key)], {}
        own = {"HOST": LOOPBACK, "PORT": str(port)}
        if instance.writable:
            volume = self.storage.volume(key.workload_id)
            writable.append(volume)
            own[WRITABLE_NAME] = str(volume)
            if instance.writable_path and self.confinement.mode == "namespace":
                mounts = {instance.writable_path: volume}
                own[WRITABLE_NAME] = instance.writable_path
        return self.confinement.command(
            self._bounded(bundle.argv, instance.resources),
            workload_id=key.workload_id,
            cwd=Path(bundle.workdir),
            env={**bundle.env, **env, **own},
            readable=[Path(bundle.folder)],
            writable=writable,
            mounts=mounts,
        )

    def groups_of(self, key: ReplicaKey, resources: Resources) -> list[Group]:
        """Return the control groups that bound the replica."""
        return self.groups.plan("/".join([str(self.root), *map(str, key)]), resources)

    def _bounded(self, argv: tuple[str, ...], resources: Resources) -> list[str]:
        has_group = "memory" in self.groups.controllers
        limits = ReplicaLimits(
            processes=self._most_processes(resources),
            memory_mb=None if has_group else resources.memory_mb,
        )
        return with_prelude(self.confinement.python, argv, limits=limits)

    def _most_processes(self, resources: Resources) -> int | None:
        asked = resources.processes
        if self.confinement.mode == "none":
            return None  # it would count every process of the worker's own user
        if asked is None or self.confinement.mode == "namespace":
            return asked or PROCESSES
        # All replicas of a workload, and a new one beside the old, are one user.
        return max(PROCESSES, asked * MOST_REPLICAS)


def checked_id(kind: str, given: object) -> str:
    """Return the id, which becomes the name of a folder, or refuse it."""
    if isinstance(given, str) and _ID.fullmatch(given):
        return given
    raise Rejected(
        "invalid_id",
        f"the {kind} id {given!r} is not 1 to 128 letters, digits, '-', '_' or '.'",
    )
