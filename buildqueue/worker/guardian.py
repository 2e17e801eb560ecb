"""Who sees how a slot died, and ends all that it started?

Each slot has a guardian for a parent: a subreaper, so that every descendant of the slot,
whatever session it made for itself, stays below it. It ends the tree when told, when the
slot dies, and when the supervisor dies: then its socket reads end-of-file. Only when
nothing is left it reports, so that a report means "the process is dead".

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
from dataclasses import dataclass
from resource import struct_rusage

import psutil

from . import linux
from .channel import Channel

SlotMain = Callable[[], None]


@dataclass(slots=True)
class _Slot:
    pid: int
    status: int | None = None
    usage: struct_rusage | None = None


def guard(watch: Channel, slot_main: SlotMain, slot_fds: list[int]) -> None:
    """Fork the slot, watch over it, report its end. Never returns."""
    linux.adopt_orphans()
    os.setsid()
    readable, writable = os.pipe()
    for end in (readable, writable):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writable)
    for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    slot = _Slot(_fork_slot(watch, slot_main, (readable, writable)))
    for fd in slot_fds:
        os.close(fd)
    watch.send(guardian=os.getpid(), pid=slot.pid)
    _watch(watch, slot, readable)
    _report(watch, slot)
    os._exit(0)


def _fork_slot(watch: Channel, slot_main: SlotMain, pipe: tuple[int, int]) -> int:
    guardian = os.getpid()
    if pid := os.fork():
        return pid
    signal.set_wakeup_fd(-1)
    for name in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_DFL)
    linux.die_with_parent(guardian, signal.SIGKILL)
    os.setsid()
    watch.close()
    for end in pipe:
        os.close(end)
    slot_main()
    os._exit(0)


def _watch(watch: Channel, slot: _Slot, wakeup: int) -> None:
    """Return once the slot and all its descendants are gone."""
    kill_at: float | None = None
    while True:
        wait = None if kill_at is None else max(0.0, kill_at - time.monotonic())
        watched = [wakeup] if watch.closed else [wakeup, watch.fileno()]
        ready, _, _ = select.select(watched, [], [], wait)
        if wakeup in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wakeup, 4096)
        if len(ready) > (wakeup in ready):
            kill_at = _orders(watch, kill_at)
        _reap(slot)
        if slot.status is not None or (kill_at and time.monotonic() >= kill_at):
            _kill_all(slot)
            return


def _orders(watch: Channel, kill_at: float | None) -> float | None:
    orders = watch.receive()
    if watch.closed:
        return time.monotonic()  # the supervisor is dead: at once
    for order in orders:
        if "end" in order:
            signal_all(signal.SIGTERM)
            kill_at = time.monotonic() + float(order["end"])
    return kill_at


def signal_all(number: signal.Signals) -> bool:
    """Send a signal to every descendant; tell whether there was one."""
    found = [
        child
        for child in psutil.Process().children(recursive=True)
        if child.status() != psutil.STATUS_ZOMBIE
    ]
    for child in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.send_signal(number)
    return bool(found)


def _reap(slot: _Slot) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return
            if pid == slot.pid:
                slot.status, slot.usage = status, usage


def _kill_all(slot: _Slot) -> None:
    """Kill until no descendant is left; what forks meanwhile is met by the next round."""
    while True:
        with contextlib.suppress(psutil.NoSuchProcess):
            if not signal_all(signal.SIGKILL):
                _reap(slot)
                if slot.status is not None:
                    return
        _reap(slot)
        time.sleep(0.002)


def _report(watch: Channel, slot: _Slot) -> None:
    usage = slot.usage
    watch.send(
        ended=slot.status,
        peak_memory_bytes=usage.ru_maxrss * 1024 if usage else None,
        cpu_seconds=usage.ru_utime + usage.ru_stime if usage else None,
    )
