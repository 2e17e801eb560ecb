"""What may be done with a tree of files that other people's code had in its hands?

It is copied, measured, handed over and removed, never followed: no step goes through a
symbolic link, and a file with a second name (a hard link to somebody else's) is refused
rather than given away. No process of the workload may run while a tree changes hands.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from buildqueue.exceptions import Rejected

# A repository's history and a developer's leftovers are no part of what is deployed.
LEFT_OUT = frozenset({".git", ".hg", ".svn", "__pycache__", ".DS_Store"})
# Far above honest trees, and far below what ends a recursive walk.
MAX_DEPTH = 100


def make_passable(folder: Path) -> None:
    """Create a folder others may pass through but not list, whatever the umask."""
    for missing in (*reversed(folder.parents), folder):
        if not missing.exists():
            missing.mkdir(exist_ok=True)
            missing.chmod(0o711)


def give_to_user(root: Path, uid: int) -> None:
    """Make the user own the whole tree and take it from everybody else."""
    _hand_over(root, uid=uid, gid=uid, folder=0o700, file=0o600, executable=0o700)


def share_with_group(root: Path, gid: int) -> None:
    """Make root own the whole tree, and let the group read it."""
    _hand_over(root, uid=0, gid=gid, folder=0o750, file=0o640, executable=0o750)


def digest_tree(root: Path) -> str:
    """Return "sha256:..." over the names, kinds, executable bits and contents.

    Refuses a link that leads out of the tree, and whatever is no file, folder or link.
    """
    total = hashlib.sha256()
    for path in _entries(root):
        name = path.relative_to(root).as_posix()
        kind, content = _kind_and_content(root, path)
        total.update(f"{kind} {len(name.encode())} {name} {content}\n".encode())
    return f"sha256:{total.hexdigest()}"


def copy_tree(source: Path, destination: Path) -> None:
    """Copy what `digest_tree` looks at into a new folder, with modes 0755 and 0644."""
    destination.mkdir(mode=0o755)
    for path in _entries(source):
        target = destination / path.relative_to(source)
        if path.is_symlink():
            target.symlink_to(os.readlink(path))
        elif path.is_dir():
            target.mkdir(mode=0o755)
        else:
            shutil.copyfile(path, target)
            target.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def size_of(root: Path) -> int:
    """Return the bytes of all regular files; refuse a bottomless tree."""
    total = 0
    for at, _, names in os.walk(root):
        _refuse_depth(root, Path(at))
        for name in names:
            found = os.lstat(os.path.join(at, name))
            total += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return total


def remove_tree(root: Path) -> None:
    """Remove the tree, closed and bottomless folders included; absent is fine."""
    try:
        shutil.rmtree(root)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):
        # A workload may close its folders to their owner, or nest them without end.
        for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
            subprocess.run(
                [*command, "--", str(root)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
        if root.exists():
            raise


def _hand_over(
    root: Path, *, uid: int, gid: int, folder: int, file: int, executable: int
) -> None:
    for at, _, names, fd in os.fwalk(root, follow_symlinks=False):
        _refuse_depth(root, Path(at))
        for name in names:
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
                raise Rejected(
                    "hard_link_refused",
                    f"{os.path.join(at, name)} has a second name; "
                    "install without hard links",
                )
            # Owner first: a change of owner drops the setuid bit, chmod would keep it.
            os.chown(name, uid, gid, dir_fd=fd, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode):
                runs = found.st_mode & 0o100
                os.chmod(name, executable if runs else file, dir_fd=fd)
        os.fchown(fd, uid, gid)
        os.fchmod(fd, folder)


def _entries(root: Path, at: Path | None = None) -> Iterator[Path]:
    """Yield every entry below root, folders before their contents, in a fixed order."""
    folder = at or root
    _refuse_depth(root, folder)
    for path in sorted(folder.iterdir(), key=lambda path: os.fsencode(path.name)):
        if path.name in LEFT_OUT:
            continue
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _entries(root, path)


def _refuse_depth(root: Path, folder: Path) -> None:
    if len(folder.parts) - len(root.parts) > MAX_DEPTH:
        raise Rejected(
            "tree_too_deep",
            f"folders are nested more than {MAX_DEPTH} deep; flatten them",
        )


def _kind_and_content(root: Path, path: Path) -> tuple[str, str]:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        target = os.readlink(path)
        inside = Path(os.path.normpath(path.parent / target)).is_relative_to(root)
        if os.path.isabs(target) or not inside:
            raise Rejected(
                "link_leaves_source",
                f"{path.relative_to(root)} is a link that leads out of the source; "
                "replace it by the file itself",
            )
        return "link", hashlib.sha256(os.fsencode(target)).hexdigest()
    if stat.S_ISDIR(mode):
        return "folder", "-"
    if not stat.S_ISREG(mode):
        raise Rejected(
            "special_file_refused",
            f"{path.relative_to(root)} is neither a file nor a folder; remove it",
        )
    with path.open("rb") as stream:
        content = hashlib.file_digest(stream, "sha256").hexdigest()
    return ("program" if mode & 0o100 else "file"), content
