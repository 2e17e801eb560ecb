"""How does an uploaded agent, or its pip install, run without seeing the worker?

Root gives each workload a user of its own; an ordinary user puts it into namespaces
with bubblewrap. Either way it finds only the environment it was given, the folders it
was granted, and neither the worker's memory nor its files. `detect` answers with a
confinement that was tried for real, or refuses: none is ever missing by accident.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from buildqueue.backends.interpreters import base_python, reachable_python
from buildqueue.backends.launching import (
    LaunchPlan,
    Limits,
    with_prelude,
    wrapped_environment,
)
from buildqueue.backends.namespaces import NamespaceConfinement, bubblewraps
from buildqueue.backends.trees import make_passable
from buildqueue.backends.users import UserConfinement, usable_range
from buildqueue.exceptions import Rejected

__all__ = ["Confinement", "LaunchPlan", "Limits", "Mode", "detect", "private_root"]

Mode = Literal["uid", "namespace", "none"]

# Root's own place where the preferred one is closed to unprivileged users.
FALLBACK_ROOT = Path("/var/lib/buildqueue")


class Confinement(Protocol):
    """Turns a workload's command into a launch that cannot see the worker."""

    @property
    def mode(self) -> Mode:
        """Tell how it confines."""

    @property
    def python(self) -> Path:
        """Return the interpreter that a workload can run."""

    def command(
        self,
        argv: Sequence[str],
        *,
        workload_id: str,
        cwd: Path,
        env: Mapping[str, str],
        readable: Sequence[Path],
        writable: Sequence[Path],
        limits: Limits | None = None,
        mounts: Mapping[str, Path] | None = None,
    ) -> LaunchPlan:
        """Plan the launch. HOME and TMPDIR default to the first writable folder.

        A program that was not found exits with 127. Paths must exist. `mounts` are
        writable folders that are seen elsewhere, too, where a namespace can show that.
        """

    def grant_read(self, path: Path, workload_id: str) -> None:
        """Let the workload read the tree, not change it; nobody but us and it."""

    def grant_write(self, path: Path, workload_id: str) -> None:
        """Let the workload own the tree; nobody but us and it."""

    def end_strays(self, workload_id: str) -> None:
        """Kill what the workload left behind, in whatever session. Idempotent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoConfinement:
    """Only environment and limits are kept apart: where that was accepted."""

    python: Path
    mode: ClassVar[Literal["none"]] = "none"

    def command(
        self,
        argv: Sequence[str],
        *,
        workload_id: str,
        cwd: Path,
        env: Mapping[str, str],
        readable: Sequence[Path],
        writable: Sequence[Path],
        limits: Limits | None = None,
        mounts: Mapping[str, Path] | None = None,
    ) -> LaunchPlan:
        return LaunchPlan(
            name=Path(argv[0]).name,
            argv=with_prelude(
                self.python,
                argv,
                limits=limits or Limits(),
                no_new_privs=True,
                unwrap=True,
            ),
            env=wrapped_environment(env, writable),
            cwd=str(cwd),
        )

    def grant_read(self, path: Path, workload_id: str) -> None:
        """Nothing to do: it runs as the worker's own user."""

    def grant_write(self, path: Path, workload_id: str) -> None:
        """Nothing to do: it runs as the worker's own user."""

    def end_strays(self, workload_id: str) -> None:
        """Nothing that could tell its processes from the worker's."""


def detect(*, accept_none: bool) -> Confinement:
    """Return the strongest confinement that works here, having run `true` in it."""
    for confinement in _possible():
        if _works(confinement):
            return confinement
    if accept_none:
        return NoConfinement(python=base_python())
    raise Rejected(
        "confinement_unavailable",
        "untrusted code cannot be confined here: run the worker as root, or allow "
        "unprivileged user namespaces and install bubblewrap (the `bwrap` program, or "
        "the extra `local` of this package); "
        'BUILDQUEUE["LOCAL_ALLOW_UNCONFINED"] = True accepts running it unconfined',
    )


def private_root(preferred: Path) -> Path:
    """Create and return the folder for bundles and state, reachable by workloads.

    Root's workloads are other users: a preferred place that is closed to them (below
    /root, say) is replaced by one of root's own, named after it. Idempotent.
    """
    chosen = preferred.absolute()
    if os.geteuid() == 0 and not _traversable(chosen):
        digest = hashlib.sha256(str(chosen).encode()).hexdigest()[:16]
        chosen = FALLBACK_ROOT / digest
    make_passable(chosen)
    # An ordinary user's workloads are that user, so nobody else has business here.
    chosen.chmod(0o711 if os.geteuid() == 0 else 0o700)
    return chosen


def _possible() -> Iterator[Confinement]:
    usable = usable_range() if os.geteuid() == 0 else None
    if usable:
        first, count = usable
        copies = FALLBACK_ROOT / "interpreters"
        python = reachable_python(uid=first + count, copies=copies)
        yield UserConfinement(python=python, first_uid=first, uids=count)
    for program in bubblewraps():
        yield NamespaceConfinement(python=base_python(), bubblewrap=program)


def _works(confinement: Confinement) -> bool:
    plan = confinement.command(
        ["true"],
        workload_id="buildqueue-probe",
        cwd=Path("/"),
        env={},
        readable=(),
        writable=(),
    )
    try:
        done = subprocess.run(
            plan.argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
            **plan.popen_kwargs(),
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def _traversable(folder: Path) -> bool:
    """Tell whether others may pass through every existing folder up to the root."""
    existing = (parent for parent in (folder, *folder.parents) if parent.exists())
    return all(parent == folder or parent.stat().st_mode & 0o001 for parent in existing)
