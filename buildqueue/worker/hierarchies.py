"""Where may control groups be made, and is there room for them?

Below the group that this process is in, in each hierarchy that there is: those of version
1, the one of version 2, or both side by side. Nothing here fails when there are none.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from .cgroups import CONTROLLERS, PREFIX, Group, Place

LEAF = PREFIX + "worker"  # v2: where a worker goes so that groups may stand beside it
STALE_SECONDS = 60.0


def own_places(proc: Path = Path("/proc/self")) -> dict[str, Place]:
    """Return where this process may make groups, by controller, as far as it looks."""
    mounts = dict(_mounts(proc))
    found: dict[str, Place] = {}
    for line in _lines(proc / "cgroup"):
        number, names, path = line.split(":", 2)
        mounted = mounts.get("" if number == "0" else names.split(",")[0])
        if mounted is None:
            continue
        folder = _below(*mounted, path)
        if number != "0":
            mine = set(names.split(",")) & set(CONTROLLERS)
            found.update({name: Place(folder, unified=False) for name in mine})
            continue
        base = folder.parent if folder.name == LEAF else folder
        given = _words(base / "cgroup.subtree_control")
        able = given & {"memory", "pids"}
        # Every group of version 2 counts processor time, without a controller.
        names_here = able | ({"cpuacct"} if able else set())
        for name in names_here - set(found):
            found[name] = Place(base, unified=True)
    return found


def own_group(proc: Path = Path("/proc/self")) -> Group:
    """Return the group that this process is in, for its memory: to read, not to set."""
    mounts = dict(_mounts(proc))
    for line in _lines(proc / "cgroup"):
        number, names, path = line.split(":", 2)
        unified = number == "0"
        mounted = mounts.get("" if unified else names.split(",")[0])
        if mounted is None or not (unified or "memory" in names.split(",")):
            continue
        folder = _below(*mounted, path)
        told = "memory.events" if unified else "memory.oom_control"
        if (folder / told).exists():
            of_two = ("memory",) if unified else ()
            return Group(folders={"memory": str(folder)}, unified=of_two)
    return Group()


def settle(proc: Path = Path("/proc/self")) -> None:
    """Make room for groups, as a worker that starts.

    With version 2 a group that has groups below it may hold no process. A worker that
    is alone in one that it may write, as under `Delegate=yes`, moves into a leaf of it.
    """
    mounts = dict(_mounts(proc))
    for line in _lines(proc / "cgroup"):
        number, _, path = line.split(":", 2)
        if number == "0" and "" in mounts:
            _move_to_leaf(_below(*mounts[""], path))
    for place in own_places(proc).values():
        _sweep(place.folder)


def _move_to_leaf(own: Path) -> None:
    wanted = {"memory", "pids"} & _words(own / "cgroup.controllers")
    there = _words(own / "cgroup.subtree_control")
    alone = _words(own / "cgroup.procs") == {str(os.getpid())}
    if own.name == LEAF or not alone or not wanted or wanted <= there:
        return
    leaf = own / LEAF
    try:
        leaf.mkdir(exist_ok=True)
        (leaf / "cgroup.procs").write_text("0")
        order = " ".join(f"+{name}" for name in sorted(wanted))
        (own / "cgroup.subtree_control").write_text(order)
    except OSError:  # not ours to divide: as it was, and the guardians look themselves
        with contextlib.suppress(OSError):
            (own / "cgroup.procs").write_text("0")
            leaf.rmdir()


def _sweep(folder: Path) -> None:
    """Remove what killed workers left: only a group without a process can be removed."""
    for left in folder.glob(PREFIX + "*"):
        with contextlib.suppress(OSError):
            if left.name != LEAF and time.time() - left.stat().st_mtime > STALE_SECONDS:
                left.rmdir()


def _mounts(proc: Path) -> Iterator[tuple[str, tuple[Path, str]]]:
    """Return where hierarchies are mounted: by controller, version 2 by ""."""
    for line in _lines(proc / "mountinfo"):
        before, _, after = line.partition(" - ")
        kind, _source, options = after.split(" ", 2)
        root, point = before.split(" ")[3:5]
        if kind == "cgroup2":
            yield "", (Path(point), root)
        elif kind == "cgroup":
            for name in options.split(","):
                yield name, (Path(point), root)


def _below(point: Path, root: str, path: str) -> Path:
    inside = path.removeprefix(root) if root != "/" else path
    return point / inside.lstrip("/")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _words(path: Path) -> set[str]:
    return set(" ".join(_lines(path)).split())
