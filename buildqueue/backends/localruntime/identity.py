"""Is this still the same process? Pid, start time and boot id together say so.

A pid alone is reused, so nothing here signals one without the other two: the signal
goes through a pidfd that was opened before the identity was compared. The tree walk
follows parents, not sessions, so a child's own setsid does not hide it.
"""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

_DEAD_STATES = frozenset("ZXx")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEntry:
    """One line of the process table."""

    pid: int
    parent: int
    session: int
    start_time: int  # clock ticks since boot
    dead: bool  # a zombie: it runs nothing any more


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """One process for all time: never equal to a later one with the same pid."""

    pid: int
    start_time: int
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """Return the identity of the live process with this pid, if there is one."""
        entry = entry_of(pid)
        if entry is None or entry.dead:
            return None
        return cls(pid=pid, start_time=entry.start_time, boot_id=boot_id())

    def alive(self) -> bool:
        """Tell whether this very process still runs; a zombie does not."""
        return ProcessIdentity.of(self.pid) == self

    def open(self) -> int | None:
        """Return a pidfd of this very process, or None when it is gone."""
        try:
            fd = os.pidfd_open(self.pid)
        except OSError:
            return None
        if self.alive():
            return fd
        os.close(fd)
        return None

    def signal(self, number: signal.Signals) -> bool:
        """Send the signal to this very process; False when it is gone."""
        fd = self.open()
        if fd is None:
            return False
        try:
            signal.pidfd_send_signal(fd, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(fd)
        return True


@cache
def boot_id() -> str:
    """Return the kernel's id of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def entry_of(pid: int) -> ProcessEntry | None:
    """Return the process table's line of the pid, or None when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The name in parentheses may hold anything, so fields count from its end.
    fields = stat[stat.rfind(b")") + 2 :].split()
    return ProcessEntry(
        pid=pid,
        parent=int(fields[1]),
        session=int(fields[3]),
        start_time=int(fields[19]),
        dead=fields[0].decode() in _DEAD_STATES and not _has_threads(pid),
    )


def _has_threads(pid: int) -> bool:
    """Tell whether other threads live on after the first one ended."""
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def processes() -> Iterator[ProcessEntry]:
    """Yield the process table as it is seen from here."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (entry := entry_of(int(name))) is not None:
            yield entry


def descendants(root: int) -> list[ProcessEntry]:
    """Return all live processes below the root, parents before their children."""
    children: dict[int, list[ProcessEntry]] = defaultdict(list)
    for entry in processes():
        children[entry.parent].append(entry)
    found: list[ProcessEntry] = []
    pending = [root]
    while pending:
        below = children.pop(pending.pop(), [])
        found += below
        pending += [entry.pid for entry in below]
    return [entry for entry in found if not entry.dead]


def kill_below(root: int, *, timeout: float = 10.0) -> bool:
    """Kill all that runs below the root, again and again until nothing does.

    Everything is stopped before anything is killed, or what forks without end would run
    ahead. Orphans stay below the root if it is a subreaper. False: the time ran out.
    """
    deadline = time.monotonic() + timeout
    stopped: set[ProcessEntry] = set()
    while found := set(descendants(root)):
        fresh = found - stopped
        number = signal.SIGSTOP if fresh else signal.SIGKILL
        for entry in fresh or found:
            _signal(entry, number)
        stopped |= fresh
        if time.monotonic() > deadline:
            return False
        if not fresh:
            time.sleep(0.01)
    return True


def kill_session(leader: ProcessIdentity) -> None:
    """Kill the leader, all below it and all of its session; nothing once it is gone.

    Without the leader its pid may already lead a stranger's session.
    """
    if not leader.alive():
        return
    kill_below(leader.pid)
    for entry in processes():
        if entry.session == leader.pid and not entry.dead:
            _signal(entry, signal.SIGKILL)
    leader.signal(signal.SIGKILL)


def _signal(entry: ProcessEntry, number: signal.Signals) -> None:
    identity = ProcessIdentity(
        pid=entry.pid, start_time=entry.start_time, boot_id=boot_id()
    )
    identity.signal(number)
