"""What does a worker cost that has nothing to do?"""

from __future__ import annotations

import time

from django.db import connection

from tests.support.jobs import enqueue, wait_for
from tests.support.processes import Workers
from tests.support.waiting import wait_until

SECONDS = 12.0
DEFAULTS = {
    "rescue_seconds": 15.0,
    "maintenance_seconds": 60.0,
    "watch_seconds": 2.0,
    "poll_seconds": 5.0,
}


def _transactions() -> int:
    """Count the test database's transactions, those of this question included."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database"
            " WHERE datname = current_database()"
        )
        return int(cursor.fetchone()[0])


def test_an_idle_worker_asks_the_database_less_than_once_in_two_seconds(
    workers: Workers,
) -> None:
    workers.start(**DEFAULTS)
    wait_for(enqueue("ok"))
    seen: list[tuple[float, int]] = []

    def quiet_for_a_while() -> bool:
        # Sessions report with a delay, and looking is counted, too: look seldom.
        now = time.monotonic()
        if not seen or now - seen[-1][0] >= SECONDS:
            seen.append((now, _transactions()))
        if len(seen) < 3:
            return False
        (begun, first), (ended, last) = seen[-2:]
        own = 2
        return last - first - own <= 0.5 * (ended - begun) + 1

    wait_until(quiet_for_a_while, timeout=90, message=lambda: seen)
