"""How do several real connections do the same thing at the same moment?

Threads behind a barrier, each with its own connection to the database, which it closes;
what one of them raises is raised by the race.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import psycopg
from django.db import connections

from .scratch import url_of

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


def somebody_waits() -> bool:
    """Tell whether a session of the test's database waits for a lock of another."""
    waits = (
        "SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) "
        "WHERE NOT granted AND datname = current_database()"
    )
    with psycopg.connect(url_of(connections["default"].settings_dict["NAME"])) as own:
        return own.execute(waits).fetchone() is not None
