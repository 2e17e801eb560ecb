"""How much does a run take, and has it crossed a limit? The guardian's look.

What a control group counts is read from it. The rest is summed over the tree: memory
as the kernel shares it out among those that map it, and processor time with that of
children that were waited for. An idle slot's own share is no part of the run's.
A look is no snapshot: it may miss what comes and goes between two, and never sees more
than there is.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from ..queue.limits import Limits
from .cgroups import Group

LOOK_SECONDS = 0.2
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Sight:
    """One process, as seen once."""

    pid: int
    cpu_seconds: float
    threads: int
    resident_bytes: int


@dataclass(slots=True)
class Gauge:
    """Measures the tree below one process for as long as a run with limits lasts."""

    pid: int
    limits: Limits
    group: Group
    peak_memory_bytes: int = 0
    cpu_seconds: float = 0.0
    _idle_cpu: float = field(init=False)
    _idle_memory: int = field(init=False)

    def __post_init__(self) -> None:
        """Note what the slot has used before the run."""
        seen = list(tree(self.pid))
        self._idle_cpu = sum(each.cpu_seconds for each in seen)
        self._idle_memory = sum(proportional_bytes(each) for each in seen)

    @classmethod
    def of(cls, pid: int, watched: dict[str, Any]) -> Gauge:
        """Return the gauge that a slot's message asks for."""
        return cls(pid, Limits.of(watched["limits"]), Group.of(watched))

    def crossed(self) -> str | None:
        """Look; return the code of a limit that the run has crossed."""
        if code := self.stopped_by_kernel():
            return code
        seen = list(tree(self.pid)) if self._must_see() else []
        return self._cpu(seen) or self._processes(seen) or self._memory(seen)

    def stopped_by_kernel(self) -> str | None:
        """Return the code of a limit that the group has enforced; true afterwards too."""
        if self.group.ooms():
            return "out_of_memory"
        return "process_limit" if self.group.refused_forks() else None

    def read_group(self) -> None:
        """Take over what the group has counted by now; it outlives its processes."""
        if (peak := self.group.peak_memory_bytes()) is not None:
            self.peak_memory_bytes = max(self.peak_memory_bytes, peak)
        if (used := self.group.cpu_seconds()) is not None:
            self.cpu_seconds = max(self.cpu_seconds, used)

    def _must_see(self) -> bool:
        wanted = {
            "memory": self.limits.memory_bytes,
            "pids": self.limits.processes,
            "cpuacct": self.limits.cpu_seconds,
        }
        return any(v is not None and not self.group.has(c) for c, v in wanted.items())

    def _cpu(self, seen: list[Sight]) -> str | None:
        limit = self.limits.cpu_seconds
        if limit is None:
            return None
        used = self.group.cpu_seconds()
        if used is None:
            used = sum(each.cpu_seconds for each in seen) - self._idle_cpu
        # What ended without being waited for is in no sum any more.
        self.cpu_seconds = max(self.cpu_seconds, used)
        return "cpu_limit" if self.cpu_seconds > limit else None

    def _processes(self, seen: list[Sight]) -> str | None:
        limit = self.limits.processes
        if limit is None or self.group.has("pids"):
            return None
        count = sum(each.threads for each in seen)
        return "process_limit" if count > limit else None

    def _memory(self, seen: list[Sight]) -> str | None:
        limit = self.limits.memory_bytes
        if limit is None or self.group.has("memory"):
            return None
        taken = sum(proportional_bytes(each) for each in seen) - self._idle_memory
        self.peak_memory_bytes = max(self.peak_memory_bytes, taken)
        return "out_of_memory" if self.peak_memory_bytes > limit else None


def tree(pid: int) -> Iterator[Sight]:
    """See a process and all below it, parents first.

    In this order a child that is seen was not yet waited for when its parent was seen:
    its time is not counted twice.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            if seen := _see(process.pid):
                yield seen


def _see(pid: int) -> Sight | None:
    try:
        # The name, in brackets, may hold anything; the numbers come after it.
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return Sight(
        pid=pid,
        cpu_seconds=sum(map(int, words[11:15])) / _TICKS,
        threads=max(1, int(words[17])),
        resident_bytes=int(words[21]) * _PAGE,
    )


def proportional_bytes(seen: Sight) -> int:
    """Return its memory, what it shares divided among those that share it."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{seen.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return seen.resident_bytes
