"""How is the queue doing? The few numbers that people look at first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet

from ..models import BuildJob, Worker
from ..states import JobStatus, WorkerStatus
from . import database

COUNT_CAP = 10_000

OLDEST_WAITING = """
WITH RECURSIVE groups AS (
    -- A loose walk over the work queue's index: one probe a queue and priority.
    (SELECT queue, priority FROM buildqueue_buildjob
     WHERE status = 'pending' AND NOT held
     ORDER BY queue, priority DESC LIMIT 1)
    UNION ALL
    SELECT next.queue, next.priority
    FROM groups CROSS JOIN LATERAL (
        (SELECT queue, priority FROM buildqueue_buildjob
         WHERE status = 'pending' AND NOT held
           AND queue = groups.queue AND priority < groups.priority
         ORDER BY priority DESC LIMIT 1)
        UNION ALL
        (SELECT queue, priority FROM buildqueue_buildjob
         WHERE status = 'pending' AND NOT held AND queue > groups.queue
         ORDER BY queue, priority DESC LIMIT 1)
        LIMIT 1
    ) AS next
)
SELECT head.id FROM groups CROSS JOIN LATERAL (
    SELECT id, due_at, seq FROM buildqueue_buildjob
    WHERE status = 'pending' AND NOT held
      AND queue = groups.queue AND priority = groups.priority
    ORDER BY due_at, seq LIMIT 1
) AS head
ORDER BY head.due_at, head.seq LIMIT 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The queue at one moment."""

    counts: dict[str, int]  # by status, each capped at COUNT_CAP
    oldest_waiting: BuildJob | None
    workers: list[Worker]
    last_failures: list[BuildJob]
    database_time: datetime


def snapshot(*, failures: int = 10) -> Snapshot:
    """Return the numbers, in a handful of indexed queries."""
    jobs = BuildJob.objects.using(database.alias()).select_related("agent", "connector")
    failed = jobs.filter(status=JobStatus.FAILED).order_by("-created_at", "-id")
    with database.connection().cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment = cursor.fetchone()[0]
        cursor.execute(OLDEST_WAITING)
        oldest = cursor.fetchone()
    return Snapshot(
        counts={status: count(status) for status in JobStatus.values},
        oldest_waiting=jobs.filter(pk=oldest[0]).first() if oldest else None,
        workers=live_workers(),
        last_failures=list(failed[:failures]),
        database_time=moment,
    )


def count(status: str) -> int:
    """Return how many jobs are in a status, counted up to COUNT_CAP."""
    jobs = BuildJob.objects.using(database.alias()).filter(status=status)
    if status != JobStatus.PENDING:
        return _capped(jobs)
    # In two parts, because each has a partial index of its own.
    both = _capped(jobs.filter(held=False)) + _capped(jobs.filter(held=True))
    return min(both, COUNT_CAP)


def _capped(jobs: QuerySet[BuildJob]) -> int:
    return jobs.order_by().values("pk")[:COUNT_CAP].count()


def live_workers() -> list[Worker]:
    """Return the workers that count themselves as running, silent ones included."""
    workers = Worker.objects.using(database.alias())
    alive = workers.filter(status__in=[WorkerStatus.RUNNING, WorkerStatus.DRAINING])
    return list(alive.order_by("host", "started_at"))


def silent_since(worker: Worker, moment: datetime, *, after: timedelta) -> bool:
    """Tell whether a worker has not beaten for too long at the database's moment."""
    return moment - worker.heartbeat_at > after
