"""How is the queue doing? The few numbers that people look at first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Min, Q

from ..models import BuildJob, Worker
from ..models.expressions import ClockTimestamp
from ..states import FINAL, OPEN, JobStatus, WorkerStatus
from . import database

COUNT_CAP = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The queue at one moment."""

    counts: dict[str, int]  # by status; capped at COUNT_CAP for ended jobs
    oldest_waiting: BuildJob | None
    workers: list[Worker]
    last_failures: list[BuildJob]
    database_time: datetime


def snapshot(*, failures: int = 10) -> Snapshot:
    """Return the numbers, in a handful of indexed queries."""
    jobs = BuildJob.objects.using(database.alias())
    open_counts = dict(
        jobs.filter(completed_at__isnull=True, status__in=sorted(OPEN))
        .values_list("status")
        .annotate(n=Count("pk"))
    )
    ended_counts = {
        status: jobs.filter(status=status).values("pk")[:COUNT_CAP].count()
        for status in sorted(FINAL)
    }
    counts = dict.fromkeys(JobStatus.values, 0) | open_counts | ended_counts
    waiting = jobs.filter(status=JobStatus.PENDING).order_by("due_at", "seq")
    failed = jobs.filter(status=JobStatus.FAILED).order_by("-created_at", "-id")
    with database.connection().cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment = cursor.fetchone()[0]
    return Snapshot(
        counts=counts,
        oldest_waiting=waiting.select_related("agent", "connector").first(),
        workers=live_workers(),
        last_failures=list(failed.select_related("agent", "connector")[:failures]),
        database_time=moment,
    )


def live_workers() -> list[Worker]:
    """Return the workers that count themselves as running, silent ones included."""
    workers = Worker.objects.using(database.alias())
    alive = workers.filter(status__in=[WorkerStatus.RUNNING, WorkerStatus.DRAINING])
    return list(alive.order_by("host", "started_at"))


def silent_since(worker: Worker, moment: datetime, *, after: timedelta) -> bool:
    """Tell whether a worker has not beaten for too long at the database's moment."""
    return moment - worker.heartbeat_at > after


def oldest_due() -> datetime | None:
    """Return when the next scheduled job is due."""
    jobs = BuildJob.objects.using(database.alias())
    due = jobs.filter(status=JobStatus.SCHEDULED).aggregate(at=Min("due_at"))
    moment: datetime | None = due["at"]
    return moment


def ready(queues: list[str]) -> int:
    """Return how many jobs are due now in these queues (all, when empty)."""
    jobs = BuildJob.objects.using(database.alias())
    mine = Q(queue__in=queues) if queues else Q()
    return jobs.filter(
        mine, status=JobStatus.PENDING, held=False, due_at__lte=ClockTimestamp()
    ).count()
