"""When does a worker that was told to stop stop waiting for its jobs?

The first signal begins the drain: jobs may finish until its end, then they are handed
back. A second one ends the drain at once, and makes the exit code 1. A worker that stops
by itself (`--burst`, `--max-jobs`) has nothing left to wait for.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

FOREVER = float("inf")
CAUGHT = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def leaving_on_term() -> Iterator[None]:
    """End in good order on TERM while nothing is started that has to be stopped.

    The first process of a container is not ended by a signal that it does not catch.
    """

    def leave(number: int, frame: FrameType | None) -> None:
        sys.exit(0)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Stop:
    """Signals in, answers out."""

    def __init__(self, drain_seconds: float | None) -> None:
        self._drain = FOREVER if drain_seconds is None else drain_seconds
        self._signals = 0
        self.drain_ends: float | None = None  # None: not stopping
        self.over = False  # whoever still runs is ended
        self.exit_code = 0

    @property
    def begun(self) -> bool:
        """Whether no new job may start."""
        return self.drain_ends is not None

    @contextmanager
    def signals_caught(self, wakeup_fd: int) -> Iterator[None]:
        """Count the signals that stop a worker; each wakes the main loop."""
        before = {number: signal.getsignal(number) for number in CAUGHT}
        for number in CAUGHT:
            signal.signal(number, self._count)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        previous = signal.set_wakeup_fd(wakeup_fd, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(previous)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _count(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1

    def by_itself(self) -> None:
        """There is nothing left to do."""
        if self.drain_ends is None:
            self.drain_ends = FOREVER

    def look(self, now: float) -> bool:
        """Take in the signals; true when the drain has just begun."""
        begins = bool(self._signals) and self.drain_ends is None
        if begins:
            self.drain_ends = now + self._drain
        if self._signals > 1 and not self.over:
            self.exit_code, self.over = 1, True
        if self.drain_ends is not None and now >= self.drain_ends:
            self.over = True
        return begins

    def moments(self) -> list[float]:
        """Return when something is due without a message."""
        if self.drain_ends is None or self.over or self.drain_ends == FOREVER:
            return []
        return [self.drain_ends]
