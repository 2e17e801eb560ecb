"""How does a test wait? For a condition, with a generous time-out, telling what it saw."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    predicate: Callable[[], T], *, timeout: float = 60.0, message: object = ""
) -> T:
    """Return the predicate's first true value; fail with the last one seen.

    `message` may be a callable, asked only when the wait fails.
    """
    deadline = time.monotonic() + timeout
    pause = 0.005
    while True:
        seen = predicate()
        if seen:
            return seen
        if time.monotonic() > deadline:
            text = message() if callable(message) else message
            raise AssertionError(f"gave up after {timeout} s: {text} (saw {seen!r})")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
