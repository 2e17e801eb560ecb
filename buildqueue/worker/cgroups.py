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
from typing import Any

from ..queue.limits import Limits

PREFIX = "buildqueue-"
CONTROLLERS = ("memory", "pids", "cpuacct")
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

    @classmethod
    def of(cls, watched: dict[str, Any]) -> Group:
        """Return the group that a slot's message tells of."""
        told = watched["group"]
        return cls(folders=told["folders"], unified=tuple(told["unified"]))

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
    memory, processes = int(limits.memory_bytes or 0), int(limits.processes or 0)
    if controller == "memory" and unified:
        yield "memory.max", str(memory)
        yield "memory.swap.max", "0"
        yield "memory.oom.group", "1"
    elif controller == "memory":
        yield "memory.limit_in_bytes", str(memory)
        yield "memory.memsw.limit_in_bytes", str(memory)
    elif controller == "pids":
        yield "pids.max", str(processes)


def _counter(text: str, key: str) -> int:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == key and value.strip().isdigit():
            return int(value)
    return 0
