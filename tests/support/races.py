"""How do several real connections do the same thing at the same moment?

Threads behind a barrier, each with its own connection to the database, which it closes;
what one of them raises is raised by the race.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import connections

T = TypeVar("T")
PATIENCE = 120.0


def race(racers: int, act: Callable[[int], T]) -> list[T]:
    """Call `act(number)` in each of so many threads at once; return the answers."""
    barrier = threading.Barrier(racers)

    def run(number: int) -> T:
        try:
            connections["default"].ensure_connection()
            barrier.wait(PATIENCE)
            return act(number)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(racers) as threads:
        return list(threads.map(run, range(racers), timeout=PATIENCE))
