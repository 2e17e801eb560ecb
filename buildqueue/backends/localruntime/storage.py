"""Which folders may an instance write to? Its scratch folder, and maybe one for life.

A scratch folder belongs to one replica and goes with its instance. The volume belongs
to the workload: every instance that asks for it finds what the ones before it left,
until the workload is deleted. A folder is handed over while it is empty and unseen, and
never again: what a workload keeps in it stays as the workload made it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from buildqueue.backends.confinement import Confinement
from buildqueue.backends.localruntime.state import ReplicaKey
from buildqueue.backends.trees import remove_tree
from buildqueue.exceptions import Rejected, Unavailable

# Where a namespace has the system's folders, or its own.
_SYSTEM = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "nix"}
    | {"proc", "root", "run", "sbin", "sys", "tmp", "usr"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The writable folders below one root."""

    root: Path
    confinement: Confinement

    def scratch(self, key: ReplicaKey) -> Path:
        """Return the replica's scratch folder; a repeat finds it as it was left."""
        return self._own(self._scratch(*_names(key)), key.workload_id)

    def volume(self, workload_id: str) -> Path:
        """Return the workload's folder for life."""
        return self._own(self.root / "volumes" / workload_id, workload_id)

    def forget(self, workload_id: str, instance_id: str) -> None:
        """Remove the instance's scratch folders; absent is fine."""
        remove_tree(self._scratch(workload_id, instance_id))

    def forget_replica(self, key: ReplicaKey) -> None:
        """Remove the replica's scratch folder; absent is fine."""
        remove_tree(self._scratch(*_names(key)))

    def forget_workload(self, workload_id: str) -> None:
        """Remove all that the workload could write to; absent is fine."""
        remove_tree(self._scratch(workload_id))
        remove_tree(self.root / "volumes" / workload_id)

    def _scratch(self, *names: str) -> Path:
        return self.root.joinpath("scratch", *names)

    def _own(self, folder: Path, workload_id: str) -> Path:
        try:
            if not folder.is_dir():
                self._make(folder, workload_id)
        except OSError as error:
            raise Unavailable(
                "scratch_not_made",
                "no folder could be made for the instance: is the disk full?",
                detail=str(error),
            ) from error
        return folder

    def _make(self, folder: Path, workload_id: str) -> None:
        """Make it aside and rename it: a death on the way leaves no half-given one."""
        for part in reversed(folder.relative_to(self.root).parents[:-1]):
            parent = self.root / part
            parent.mkdir(exist_ok=True)
            # Others' users pass through, and cannot list who else is here; set apart
            # from mkdir, whose mode the daemon's umask cuts.
            parent.chmod(0o711)
        aside = folder.with_name(f".new-{folder.name}")
        remove_tree(aside)
        aside.mkdir()
        self.confinement.grant_write(aside, workload_id)
        aside.rename(folder)


def checked_path(given: str | None) -> str | None:
    """Return where the volume is to be seen in a namespace, or refuse it."""
    if given is None:
        return None
    path = PurePosixPath(given)
    odd = len(given) > 255 or ":" in given or not given.isprintable()
    if odd or ".." in path.parts or len(path.parts) < 2 or not path.is_absolute():
        problem = 'an absolute path other than "/", without "..", ":" or odd characters'
    elif path.parts[1] in _SYSTEM:
        problem = f"a path outside of /{path.parts[1]}, which is the system's"
    else:
        return str(path)
    raise Rejected("invalid_writable_path", f"the writable path has to be {problem}")


def _names(key: ReplicaKey) -> tuple[str, str, str]:
    return key.workload_id, key.instance_id, str(key.number)
