"""What may a handler do that no engine expects? Each of it once."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import time

from buildqueue.exceptions import LostLeaseError
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import Snooze


class Mute(Exception):
    """Says nothing, and breaks who asks."""

    @property
    def code(self) -> str:
        """Break who asks."""
        raise RuntimeError("no code")

    def __str__(self) -> str:
        """Break who asks."""
        raise RuntimeError("no words")


def end_oddly(ctx: Context, behavior: str) -> None:
    """Raise what is meant for somebody else, if told to."""
    match behavior:
        case "lost_lease":
            raise LostLeaseError(ctx.job.pk, ctx.lease_id)
        case "cancelled":
            raise asyncio.CancelledError
        case "keyboard":
            raise KeyboardInterrupt
        case "generator_exit":
            raise GeneratorExit
        case "mute":
            raise Mute


def tampered() -> Snooze:
    """Return an outcome that has escaped its own checks."""
    snooze = Snooze(delay_seconds=0)
    object.__setattr__(snooze, "delay_seconds", 1e15)
    return snooze


def leave_thread() -> None:
    """Leave a thread that prints for as long as the process lives."""

    def print_on() -> None:
        while True:
            sys.stdout.write("secret\n")
            sys.stdout.flush()
            time.sleep(0.01)

    threading.Thread(target=print_on, daemon=True).start()


def garble() -> None:
    """Tell the supervisor what makes no sense, and go on."""
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as end:
                # Of a pair: a server's has a name.
                if end.family == socket.AF_UNIX and not end.getpeername():
                    end.sendall(b"no JSON\n")
        except OSError:  # no socket, or the listing's own
            continue
    time.sleep(600)
