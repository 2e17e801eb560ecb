"""How does the kernel itself bound what a run takes? By a control group of its own.

The slot makes it below the worker's own group and enters it before its handler is
called, so that all that the run starts is inside; the guardian reads it, and removes it
when the tree is gone. If that one is killed the supervisor removes it, and if both are,
the next worker that starts there. Each controller stands alone: where one cannot be had,
read-only in most containers, `Group` is without it, and the guardian looks by itself.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..queue.limits import Limits

PREFIX = "buildqueue-"
LEAF = PREFIX + "worker"  # v2: where a worker goes so that groups may stand beside it
CONTROLLERS = ("memory", "pids", "cpuacct")
STALE_SECONDS = 60.0
REMOVAL_TRIES = 50


@dataclass(frozen=True, slots=True)
class Place:
    """Where groups of one controller may be made."""

    folder: Path
    unified: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The folders of one run, by controller; of one that has no controller, nothing."""

    folders: dict[str, str] = field(default_factory=dict)
    unified: tuple[str, ...] = ()  # the controllers that are of version 2

    def has(self, controller: str) -> bool:
        """Tell whether the kernel bounds, or counts, this for us."""
        return controller in self.folders

    def ooms(self) -> int:
        """Return how many of its processes the kernel has killed for want of memory."""
        if "memory" not in self.unified:
            return self._count("memory", "memory.oom_control", "oom_kill")
        # Its own, not of groups below it, where the kernel tells them apart.
        text = self._text("memory", "memory.events.local")
        return _counter(text or self._text("memory", "memory.events"), "oom_kill")

    def refused_forks(self) -> int:
        """Return how often a process or thread was refused."""
        return self._count("pids", "pids.events", "max")

    def peak_memory_bytes(self) -> int | None:
        """Return the most it had at once; None when the kernel does not tell."""
        unified = "memory" in self.unified
        name = "memory.peak" if unified else "memory.max_usage_in_bytes"
        text = self._text("memory", name)
        return int(text) if text.strip().isdigit() else None

    def cpu_seconds(self) -> float | None:
        """Return the processor time of all that was ever in it."""
        if not self.has("cpuacct"):
            return None
        if "cpuacct" in self.unified:
            return self._count("cpuacct", "cpu.stat", "usage_usec") / 1e6
        text = self._text("cpuacct", "cpuacct.usage")
        return int(text) / 1e9 if text.strip().isdigit() else None

    def remove(self) -> None:
        """Remove its folders; the last process may take a moment to leave."""
        for folder in set(self.folders.values()):
            for _ in range(REMOVAL_TRIES):
                try:
                    os.rmdir(folder)
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.01)

    def _text(self, controller: str, name: str) -> str:
        if not self.has(controller):
            return ""
        try:
            return Path(self.folders[controller], name).read_text()
        except OSError:  # of an older kernel, or removed meanwhile
            return ""

    def _count(self, controller: str, name: str, key: str) -> int:
        return _counter(self._text(controller, name), key)


def enclose(limits: Limits, name: str, places: dict[str, Place]) -> tuple[Group, str]:
    """Make a group and enter it; return it, and why it lacks what it lacks.

    Never raises for want of rights. Dying half-way leaves an empty folder at most.
    """
    folders: dict[str, str] = {}
    hindrances = []
    for controller in _wanted(limits):
        place = places.get(controller)
        if place is None:
            hindrances.append(f"{controller}: no such control group here")
            continue
        folder = place.folder / (PREFIX + name)
        try:
            folder.mkdir(exist_ok=True)
            for file, value in _values(controller, place.unified, limits):
                # Swap is no way around the limit, where there is an account of it.
                if "sw" not in file or (folder / file).exists():
                    (folder / file).write_text(value)
            (folder / "cgroup.procs").write_text("0")
        except OSError as error:
            hindrances.append(f"{controller}: {error}")
            with contextlib.suppress(OSError):
                folder.rmdir()
        else:
            folders[controller] = str(folder)
    unified = tuple(c for c in folders if places[c].unified)
    return Group(folders=folders, unified=unified), "; ".join(hindrances)


def _wanted(limits: Limits) -> Iterator[str]:
    if limits.memory_bytes is not None:
        yield "memory"
    if limits.processes is not None:
        yield "pids"
    if limits.cpu_seconds is not None:
        yield "cpuacct"


def _values(
    controller: str, unified: bool, limits: Limits
) -> Iterator[tuple[str, str]]:
    if controller == "memory" and unified:
        yield "memory.max", str(limits.memory_bytes)
        yield "memory.swap.max", "0"
        yield "memory.oom.group", "1"
    elif controller == "memory":
        yield "memory.limit_in_bytes", str(limits.memory_bytes)
        yield "memory.memsw.limit_in_bytes", str(limits.memory_bytes)
    elif controller == "pids":
        yield "pids.max", str(limits.processes)


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


def _counter(text: str, key: str) -> int:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == key and value.strip().isdigit():
            return int(value)
    return 0


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _words(path: Path) -> set[str]:
    return set(" ".join(_lines(path)).split())
