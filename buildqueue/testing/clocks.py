"""How does a test have an hour pass, when only the database's clock counts?

    with frozen_clock() as clock:
        enqueue(Reminder(), due_at=clock.now + timedelta(hours=1))
        drain()                # nothing is due
        clock.advance(3600)
        drain()                # now it is

PostgreSQL's clock cannot be set. Its functions can be shadowed: a schema that is searched
before the system's own has a `now()`, `statement_timestamp()` and `clock_timestamp()` that
return the test's moment. It holds for statements and triggers of this one connection;
the defaults of columns (`created_at`, `started_at`) and other connections, real workers
among them, keep the true time. Python's clock is not touched: freeze it beside this one
if your handlers ask it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Final

from django.db import DatabaseError
from django.db.transaction import TransactionManagementError

from ..models import BuildJob
from ..models.expressions import ClockTimestamp
from ..queue import database
from ..states import JobStatus

SCHEMA: Final = "buildqueue_clock"
SHADOW: Final = """
CREATE OR REPLACE FUNCTION {schema}.{name}() RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('{schema}.frozen_at', true), '')::timestamptz,
                    pg_catalog.{name}())
$$
"""
SHADOWED: Final = ("now", "statement_timestamp", "clock_timestamp")
LOOK: Final = (
    "SELECT current_setting('search_path'), "
    f"coalesce(current_setting('{SCHEMA}.frozen_at', true), '')"
)
SET: Final = (
    "SELECT set_config('search_path', %s, false), "
    f"set_config('{SCHEMA}.frozen_at', %s, false)"
)


class Clock:
    """The database's clock, as this connection sees it: it stands still."""

    @property
    def now(self) -> datetime:
        """The moment at which it stands."""
        with database.connection().cursor() as cursor:
            cursor.execute("SELECT clock_timestamp()")
            moment: datetime = cursor.fetchone()[0]
        return moment

    def advance(self, by: float | timedelta) -> datetime:
        """Move it on, by seconds or a span, and return the moment at which it stands."""
        span = by if isinstance(by, timedelta) else timedelta(seconds=by)
        self.stand_at(self.now + span)
        return self.now

    def stand_at(self, moment: datetime) -> None:
        """Have it stand at a moment, which may be an earlier one."""
        if moment.tzinfo is None:
            raise ValueError("the moment must name its time zone")
        with database.connection().cursor() as cursor:
            cursor.execute(LOOK)
            path, _ = cursor.fetchone()
            cursor.execute(SET, [path, moment.isoformat()])


def is_frozen() -> bool:
    """Tell whether a test has frozen the clock of this connection."""
    with database.connection().cursor() as cursor:
        cursor.execute(LOOK)
        return bool(cursor.fetchone()[1])


@contextmanager
def frozen_clock(moment: datetime | None = None) -> Iterator[Clock]:
    """Have the database's clock stand still, at a moment or now, and move only by hand.

    Leases do not run out meanwhile unless it is moved past their end. It is given back
    at the end of the block; may be nested.
    """
    clock = Clock()
    with database.connection().cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        for name in SHADOWED:
            cursor.execute(SHADOW.format(schema=SCHEMA, name=name))
        cursor.execute(LOOK)
        path, frozen_at = before = cursor.fetchone()
        if not path.startswith(SCHEMA):
            path = f"{SCHEMA}, pg_catalog, {path}".rstrip(", ")
        cursor.execute(SET, [path, frozen_at])
    clock.stand_at(moment or clock.now)
    try:
        yield clock
    finally:
        # In a transaction that has failed its rollback gives the clock back.
        with suppress(DatabaseError, TransactionManagementError):
            _give_back(before)


def _give_back(before: tuple[str, str]) -> None:
    with database.connection().cursor() as cursor:
        cursor.execute(SET, before)
        if not before[1] and not database.connection().in_atomic_block:
            cursor.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")


def make_due(*jobs: BuildJob) -> int:
    """Have these scheduled jobs, or all of them, be due now; return how many there are.

    Only their due time is changed, directly and without an event: to test what an
    operator does, use `verbs.change_due`.
    """
    rows = BuildJob.objects.using(database.alias()).filter(status=JobStatus.SCHEDULED)
    if jobs:
        rows = rows.filter(pk__in=[job.pk for job in jobs])
    return rows.update(due_at=ClockTimestamp())
