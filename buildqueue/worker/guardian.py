"""Who sees how a slot died, and ends all that it started?

Each slot has a guardian for a parent: a subreaper, so that every descendant of the slot,
whatever session it made for itself, stays below it. It ends the tree when told, when the
slot dies, when the run takes more than it may, when the supervisor dies (its socket
reads end-of-file), and when the lease that the slot works under is over: a frozen
supervisor renews nothing, and by then another worker may have the job. Only when nothing
is left it reports, so that a report means "the process is dead".

If the guardian itself is killed, the slot dies by its death signal, and what is left
falls to the supervisor.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from resource import struct_rusage
from typing import Any

import psutil

from . import hierarchies, linux
from .cgroups import Group
from .channel import Channel, Message
from .gauge import LOOK_SECONDS, Gauge
from .limiting import SOFT

SlotMain = Callable[[], None]


def guard(watch: Channel, slot_main: SlotMain, slot_fds: list[int]) -> None:
    """Fork the slot, watch over it, report its end. Never returns."""
    linux.adopt_orphans()
    os.setsid()
    readable, writable = os.pipe()
    for end in (readable, writable):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    pid = _fork_slot(watch, slot_main, (readable, writable))
    for fd in slot_fds:
        os.close(fd)
    watch.send(guardian=os.getpid(), pid=pid)
    guardian = Guardian(watch, pid, readable)
    guardian.watch_over()
    watch.send(**guardian.report())
    os._exit(0)


def _fork_slot(watch: Channel, slot_main: SlotMain, pipe: tuple[int, int]) -> int:
    guardian = os.getpid()
    if pid := os.fork():
        return pid
    signal.set_wakeup_fd(-1)
    for name in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_DFL)
    linux.die_with_parent(guardian, signal.SIGKILL)
    # Orphans stay below the slot, which so knows what a run has left behind.
    linux.adopt_orphans()
    os.setsid()
    watch.close()
    for end in pipe:
        os.close(end)
    slot_main()
    os._exit(0)


@dataclass(slots=True)
class Guardian:
    """Watches over one slot; all moments are of the clock that counts sleep."""

    watch: Channel
    pid: int
    wakeup: int  # readable when a child has ended
    lease_ends: float | None = None
    kill_at: float | None = None  # when the time between TERM and KILL is over
    status: int | None = None
    usage: struct_rusage | None = None
    overran: bool = field(default=False)  # ended because the lease was over
    gauge: Gauge | None = None  # of a run that may take only so much
    crossed: str | None = None  # the limit for which it was ended
    own_group: Group = field(default_factory=hierarchies.own_group)
    ooms: int = 0  # the kernel's kills in the worker's own group, before this run

    def watch_over(self) -> None:
        """Return once the slot and all its descendants are gone."""
        while True:
            self._wait()
            self._reap()
            self._measure()
            now = linux.boottime()
            if self.lease_ends is not None and now >= self.lease_ends:
                self.overran = self.status is None
                self.kill_at = now
            # After a TERM the rest of the tree keeps its time, too, to end in good order.
            died = self.status is not None and self.kill_at is None
            over = self.kill_at is not None and now >= self.kill_at
            gone = self.status is not None and not linux.has_children()
            if died or over or gone:
                self._kill_all()
                self._look_back()
                return

    def _wait(self) -> None:
        look_at = linux.boottime() + LOOK_SECONDS if self.gauge else None
        known = (self.lease_ends, self.kill_at, look_at)
        moments = [m for m in known if m is not None]
        wait = max(0.0, min(moments) - linux.boottime()) if moments else None
        if self.status is not None:
            wait = 0.02  # only the rest of the tree is waited for
        watched: list[Any] = [self.wakeup]
        if not self.watch.closed:
            watched.append(self.watch)
        ready, _, _ = select.select(watched, [], [], wait)
        if self.wakeup in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self.wakeup, 4096)
        if self.watch in ready:
            for order in self.watch.receive():
                self._obey(order)
            if self.watch.closed:  # the supervisor is dead: at once
                self.kill_at = linux.boottime()

    def _obey(self, order: Message) -> None:
        if "watched" in order:
            self._begin_run(order["watched"])
        if "until" in order:
            self.lease_ends = order["until"]
        elif "soft" in order and self.status is None:
            # Not reaped, so the number is still its own.
            os.kill(self.pid, SOFT)
        elif "end" in order:
            self.signal_all(signal.SIGTERM)
            moment = linux.boottime() + float(order["end"])
            self.kill_at = moment if self.kill_at is None else min(self.kill_at, moment)

    def _begin_run(self, watched: Message | None) -> None:
        self.ooms = self.own_group.ooms()
        self.gauge = Gauge.of(self.pid, watched) if watched else None

    def _measure(self) -> None:
        """End the tree, without a grace, when its run has crossed a limit."""
        if self.gauge is None or self.kill_at is not None or self.status is not None:
            return
        if code := self.gauge.crossed():
            self.crossed, self.kill_at = code, linux.boottime()

    def _look_back(self) -> None:
        """Tell why the kernel ended the slot, if it did: it may die within a look."""
        told_before_it_died = [] if self.watch.closed else self.watch.rest()
        for order in told_before_it_died:
            if "watched" in order:
                self._begin_run(order["watched"])
        if self.gauge is not None:
            self.crossed = self.crossed or self.gauge.stopped_by_kernel()
            self.gauge.read_group()
            self.gauge.group.remove()
        if self.crossed is None and self._was_killed():
            # Without a limit of its own: that of the container, or the host, was met.
            met = self.own_group.ooms() > self.ooms
            self.crossed = "out_of_memory" if met else None

    def _was_killed(self) -> bool:
        died = self.status is not None and os.WIFSIGNALED(self.status)
        return died and os.WTERMSIG(self.status or 0) == signal.SIGKILL

    @staticmethod
    def signal_all(*numbers: signal.Signals) -> None:
        """Send signals to every descendant that is seen: the list is no snapshot."""
        seen = psutil.Process().children(recursive=True)
        for number in numbers:
            for child in seen:
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.send_signal(number)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self.pid:
                    self.status, self.usage = status, usage

    def _kill_all(self) -> None:
        """Kill until the kernel says that no child is left, and so no descendant."""
        pause = 0.001
        while True:
            # Stopped first, so that what forks as fast as it is killed comes to an end.
            self.signal_all(signal.SIGSTOP, signal.SIGKILL)
            self._reap()
            if not linux.has_children():
                return
            time.sleep(pause)
            pause = min(pause * 2, 0.1)

    def report(self) -> Message:
        """Return how the slot ended, and what it and its run have used."""
        used, gauge = self.usage, self.gauge
        memory = used.ru_maxrss * 1024 if used else None
        cpu = used.ru_utime + used.ru_stime if used else None
        if gauge is not None:
            memory = gauge.peak_memory_bytes or memory
            cpu = gauge.cpu_seconds or cpu
        return {
            "ended": self.status,
            "overran": self.overran,
            "crossed": self.crossed,
            "peak_memory_bytes": memory,
            "cpu_seconds": cpu,
        }
