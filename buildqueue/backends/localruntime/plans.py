"""How does a bundle become a launch? Confined, bounded, with one folder of its own.

An instance sees its bundle read-only and a scratch folder that is its home; both lie
outside the runtime's own folder, which no instance can enter. Its environment is what
the bundle and the deploy say, then HOST and PORT: nothing of the daemon's.
"""

from __future__ import annotations

import re
import resource
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from buildqueue.backends.bundles import read_bundle
from buildqueue.backends.confinement import Confinement
from buildqueue.backends.launching import LaunchPlan, Limits, with_prelude
from buildqueue.backends.localruntime.ports import LOOPBACK
from buildqueue.backends.trees import remove_tree
from buildqueue.exceptions import Rejected, Unavailable

PROCESSES = 512

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimit(Limits):
    """How many processes and threads one workload may have: a fork bomb ends there."""

    processes: int = PROCESSES

    def settings(self) -> list[tuple[int, int, int]]:
        """Return the one limit; the others are set by the confinement."""
        return [(resource.RLIMIT_NPROC, self.processes, self.processes)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """Makes launch plans for the bundles below one root."""

    root: Path
    confinement: Confinement

    def plan(
        self,
        workload_id: str,
        instance_id: str,
        *,
        reference: str,
        env: Mapping[str, str],
        port: int,
    ) -> LaunchPlan:
        """Return the launch; raises `Rejected` when the bundle or the env cannot be.

        Makes the scratch folder if it is absent, so a repeat finds it as it was left.
        """
        bundle = read_bundle(self.root, reference)
        scratch = self._make_scratch(workload_id, instance_id)
        return self.confinement.command(
            self._bounded(bundle.argv),
            workload_id=workload_id,
            cwd=Path(bundle.workdir),
            env={**bundle.env, **env, "HOST": LOOPBACK, "PORT": str(port)},
            readable=[Path(bundle.folder)],
            writable=[scratch],
        )

    def forget(self, workload_id: str, instance_id: str) -> None:
        """Remove the instance's scratch folder; absent is fine."""
        remove_tree(self._scratch(workload_id, instance_id))

    def forget_workload(self, workload_id: str) -> None:
        """Remove all scratch folders of the workload; absent is fine."""
        remove_tree(self._scratch(workload_id))

    def _bounded(self, argv: tuple[str, ...]) -> list[str]:
        if self.confinement.mode == "none":
            # There the limit would count every process of the worker's own user.
            return list(argv)
        return with_prelude(self.confinement.python, argv, limits=ProcessLimit())

    def _make_scratch(self, workload_id: str, instance_id: str) -> Path:
        folder = self._scratch(workload_id, instance_id)
        try:
            for part in reversed(folder.parents[:2]):
                part.mkdir(exist_ok=True)
                # Others' users pass through, and cannot list who else is here; set
                # apart from mkdir, whose mode the daemon's umask cuts.
                part.chmod(0o711)
            folder.mkdir(exist_ok=True)
            self.confinement.grant_write(folder, workload_id)
        except OSError as error:
            raise Unavailable(
                "scratch_not_made",
                "no folder could be made for the instance: is the disk full?",
                detail=str(error),
            ) from error
        return folder

    def _scratch(self, *ids: str) -> Path:
        return Path(self.root, "scratch", *ids)


def checked_id(kind: str, given: object) -> str:
    """Return the id, which becomes the name of a folder, or refuse it."""
    if isinstance(given, str) and _ID.fullmatch(given):
        return given
    raise Rejected(
        "invalid_id",
        f"the {kind} id {given!r} is not 1 to 128 letters, digits, '-', '_' or '.'",
    )
