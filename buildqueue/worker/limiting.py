"""What does a slot do so that its run keeps to its limits?

It enters a control group, where it can, before it tells of the run; around the
handler's call it lowers its own soft limits and lets the soft time limit be raised. The
guardian measures, and ends the tree when a limit is crossed; see `gauge`. Signals,
limits and groups belong to the process, and so does `current`.
"""

from __future__ import annotations

import logging
import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from types import FrameType
from typing import Any
from uuid import UUID

from ..exceptions import SoftTimeLimit
from ..queue.limits import UNLIMITED, Limits
from . import cgroups, hierarchies
from .cgroups import Group

logger = logging.getLogger(__name__)

SOFT = signal.SIGUSR1
CLOCK = "buildqueue step clock"  # the threads that ring the alarms of steps
MOST = 2**63 - 1  # that a resource limit can be
LAST_LOOK_SECONDS = 10.0  # how long a run that crossed a limit waits for its end


class SoftClock:
    """Raises SoftTimeLimit in the handler's call, and nowhere else.

    The signal may come late: after the call, or within the next run's. The slot's own
    clock, begun before the supervisor's, tells which run it is for; for no run it does
    nothing. It is a handler and not an ignored signal, which programs would inherit.
    """

    def __init__(self) -> None:
        self._seconds: float | None = None
        self._begun = 0.0
        self._running = False
        self._alarms: list[
            tuple[float, SoftTimeLimit]
        ] = []  # of steps, the outer first

    def begin(self, seconds: float | None) -> None:
        """Note the limit of the run that the supervisor is about to be told of."""
        signal.signal(SOFT, self._hear)
        self._seconds, self._begun = seconds, time.monotonic()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let it be raised within this block; it is entered inside the caller's try."""
        self._running = True
        try:
            yield
        finally:
            self._running = False
            self._alarms.clear()
            if self._seconds is not None:
                # A handler may have taken the signal for itself; by default it kills.
                signal.signal(SOFT, self._hear)

    @contextmanager
    def alarm(self, seconds: float, late: SoftTimeLimit) -> Iterator[None]:
        """Raise `late` in this block, in the main thread, when it takes longer."""
        main = threading.main_thread()
        if threading.current_thread() is not main or not self._running:
            yield  # only that one can be interrupted; at the end it is told all the same
            return
        moment = time.monotonic() + seconds
        self._alarms.append((moment, late))
        ring = threading.Timer(seconds, signal.pthread_kill, [main.ident, SOFT])
        ring.name, ring.daemon = CLOCK, True
        ring.start()
        try:
            yield
        finally:
            ring.cancel()
            self._alarms[:] = [each for each in self._alarms if each[1] is not late]

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if not self._running:
            return
        now = time.monotonic()
        for moment, late in self._alarms:
            if now >= moment:
                self._alarms.remove((moment, late))
                raise late
        seconds = self._seconds
        if seconds is None:
            return
        if time.monotonic() - self._begun >= seconds:
            self._running = False  # once, also when it cuts short the block's own end
            raise SoftTimeLimit(seconds)


@dataclass(slots=True)
class Enclosure:
    """What bounds the run that this process is about to make, or makes."""

    limits: Limits = UNLIMITED
    group: Group = field(default_factory=Group)
    hindrance: str = ""
    lasting: bool = False  # something of it stays: the process takes no other job

    def told(self) -> dict[str, Any]:
        """Return what the guardian must know, and why the kernel does not help it."""
        if not measured(self.limits):
            return {"watched": None, "hindrance": ""}
        watched = {"limits": asdict(self.limits), "group": asdict(self.group)}
        return {"watched": watched, "hindrance": self.hindrance}


soft = SoftClock()
current = Enclosure()


def measured(limits: Limits) -> bool:
    """Tell whether a guardian has something to measure."""
    values = (limits.memory_bytes, limits.cpu_seconds, limits.processes)
    return any(value is not None for value in values)


def begin(limits: Limits, slot: UUID) -> Enclosure:
    """Prepare this process for a run with these limits."""
    global current
    soft.begin(limits.soft_time_seconds)
    current = Enclosure(limits)
    if measured(limits):
        places = _places()
        current.group, current.hindrance = cgroups.enclose(limits, str(slot), places)
        current.lasting = True
    return current


@cache
def _places() -> dict[str, cgroups.Place]:
    """Return where groups may be made: looked up before this process enters one."""
    return hierarchies.own_places()


@contextmanager
def handler_runs() -> Iterator[None]:
    """Put the limits of the process in force for a handler's call; enter inside `try`."""
    before = {which: resource.getrlimit(which) for which, _ in _soft_limits()}
    try:
        for which, value in _soft_limits():
            hard = before[which][1]
            most = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(which, (most, hard))
        with soft.running():
            yield
    finally:
        for which, (usual, _) in before.items():
            _restore(which, usual)
        _await_end_if_crossed()


def _soft_limits() -> Iterator[tuple[int, int]]:
    limits = current.limits
    if limits.file_bytes is not None:
        yield resource.RLIMIT_FSIZE, int(limits.file_bytes)
    if limits.memory_bytes is not None and not current.group.has("memory"):
        yield resource.RLIMIT_AS, min(address_space() + int(limits.memory_bytes), MOST)


def _restore(which: int, usual: int) -> None:
    try:
        resource.setrlimit(which, (usual, resource.getrlimit(which)[1]))
    except (ValueError, OSError) as error:
        logger.warning("a limit stays, this process takes no other job: %s", error)
        current.lasting = True


def address_space() -> int:
    """Return the bytes of address space that this process has now."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _await_end_if_crossed() -> None:
    """Wait for the guardian when a part of the tree has met a limit of its group.

    The kernel stops one process of the tree, and the handler may have answered as if
    nothing had been; what it says must not be reported before the guardian's look.
    """
    ends = time.monotonic() + LAST_LOOK_SECONDS
    group = current.group
    while group.ooms() or group.refused_forks():
        if time.monotonic() > ends:
            logger.warning("no guardian has ended a run that crossed its limit")
            return
        time.sleep(0.05)
