"""Which jobs may a slot take, and in which order?

Urgent ones first, then the longest due, then the order of arrival; strictly within a
queue, and among the queues by their heads. Candidates are locked with SKIP LOCKED, so a
claim never waits for another and never fails because of one.

Of the jobs under one serial key only the oldest open one is a candidate, and only while
no run under the key is open; a retrying head keeps its place. A job whose revoked run
may still be alive is no candidate either: its process ends first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from ..models import BuildJob, JobRun
from ..models.expressions import ClockTimestamp
from ..states import JobStatus
from . import database, transitions, wakeups
from .transitions import Holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a worker serves."""

    queues: tuple[str, ...] = ()  # empty: all of them
    capabilities: tuple[str, ...] = ()
    kinds: tuple[str, ...] | None = None  # None: all kinds


HEADS = """
WITH RECURSIVE names AS (
    -- A loose walk over the index: one probe a queue, not one row a job.
    (SELECT queue FROM buildqueue_buildjob
     WHERE status = 'pending' AND NOT held ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT queue FROM buildqueue_buildjob
            WHERE status = 'pending' AND NOT held AND queue > names.queue
            ORDER BY queue LIMIT 1)
    FROM names WHERE names.queue IS NOT NULL
)
SELECT names.queue, head.kind FROM names
CROSS JOIN LATERAL (
    SELECT priority, due_at, seq, kind FROM buildqueue_buildjob
    WHERE status = 'pending' AND NOT held AND queue = names.queue
    ORDER BY priority DESC, due_at, seq LIMIT 1
) AS head
WHERE names.queue IS NOT NULL
ORDER BY head.priority DESC, head.due_at, head.seq
"""


def queues_by_head(served: Sequence[str]) -> list[str]:
    """Return the queues that have pending jobs, the most urgent head first."""
    return [queue for queue, _ in _heads(served)]


def _heads(served: Sequence[str]) -> list[tuple[str, str]]:
    """Return queue and kind of each queue's most urgent job, the most urgent first."""
    with database.connection().cursor() as cursor:
        cursor.execute(HEADS)
        return [row for row in cursor.fetchall() if not served or row[0] in served]


def other_kinds_wait(scope: Scope) -> bool:
    """Tell whether a queue is headed by a job of a kind that the scope leaves out."""
    if scope.kinds is None:
        return False
    return any(kind not in scope.kinds for _, kind in _heads(scope.queues))


def candidates(queue: str, scope: Scope, limit: int) -> QuerySet[BuildJob]:
    """Return the locked queryset of what may be taken from one queue."""
    jobs = BuildJob.objects.using(database.alias())
    same_key = jobs.filter(serial_key=OuterRef("serial_key"))
    earlier = same_key.filter(
        Q(status=JobStatus.PENDING) | Q(status=JobStatus.SCHEDULED, attempt__gt=0),
        seq__lt=OuterRef("seq"),
        completed_at__isnull=True,
    )
    open_runs = JobRun.objects.using(database.alias()).filter(ended_at__isnull=True)
    running = open_runs.filter(serial_key=OuterRef("serial_key"))
    own = open_runs.filter(job_id=OuterRef("pk"))
    free = Q(serial_key__isnull=True) | (~Exists(earlier) & ~Exists(running))
    alone = Q(attempt=0) | ~Exists(own)
    able = Q(requires__isnull=True) | Q(requires__in=scope.capabilities)
    kinds = Q() if scope.kinds is None else Q(kind__in=scope.kinds)
    return (
        jobs.filter(
            alone,
            free,
            able,
            kinds,
            queue=queue,
            status=JobStatus.PENDING,
            held=False,
            due_at__lte=ClockTimestamp(),
        )
        .order_by(F("priority").desc(), "due_at", "seq")
        .select_for_update(skip_locked=True, no_key=True, of=("self",))[:limit]
    )


def anything_due() -> bool:
    """Tell whether a scheduled job's time has come."""
    jobs = BuildJob.objects.using(database.alias())
    due = jobs.filter(status=JobStatus.SCHEDULED, due_at__lte=Now())
    # In order, so that it is one probe of the index; EXISTS may walk the whole table.
    return due.order_by("due_at").values("pk").first() is not None


def claim(scope: Scope, holder: Holder, *, limit: int = 1) -> list[BuildJob]:
    """Take up to `limit` jobs, promoting those whose time has come first."""
    if anything_due():
        for queue in transitions.promote_due():
            if scope.queues and queue not in scope.queues:
                wakeups.wake(queue)  # others serve it
    taken: list[BuildJob] = []
    for queue, kind in _heads(scope.queues):
        if scope.kinds is not None and kind not in scope.kinds:
            break  # it comes first: whoever may take it is to be asked now
        missing = limit - len(taken)
        taken += transitions.take(candidates(queue, scope, missing), holder)
        if len(taken) >= limit:
            break
    return taken
