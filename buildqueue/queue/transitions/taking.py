"""How are many jobs taken, or made pending, at once? Locked ones are skipped, not awaited.

If the process dies after a claim, the leases end or the slot's death is seen, and the
jobs are rescued.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.core.exceptions import EmptyResultSet
from django.db import IntegrityError
from django.db.models import QuerySet
from django.db.models.functions import Now

from ... import signals, states
from ...models import BuildJob, JobEvent
from ...states import JobStatus
from .. import database
from ..outcomes import SYSTEM

TRIES = 3

CLAIM = """
WITH candidates AS MATERIALIZED ({candidates}),
taken AS (
    UPDATE buildqueue_buildjob AS job
    SET status = 'in_progress',
        attempt = job.attempt + 1,
        lease_id = gen_random_uuid(),
        lease_until = clock_timestamp() + %s,
        picked_at = clock_timestamp(),
        first_started_at = COALESCE(job.first_started_at, clock_timestamp()),
        worker = %s,
        slot = %s
    FROM candidates
    WHERE job.id = candidates.id
    RETURNING job.*
), runs AS (
    -- Unique indexes on the open runs of a key, and of a job, are the last word on
    -- "one at a time".
    INSERT INTO buildqueue_jobrun
        (id, job_id, attempt, worker, slot, pid, owner_id, serial_key)
    SELECT lease_id, id, attempt, worker, slot, %s, owner_id, serial_key FROM taken
), told AS (
    INSERT INTO buildqueue_jobevent (job_id, run, attempt, kind, title, actor)
    SELECT id, lease_id, attempt, 'claim', 'in_progress', 'worker' FROM taken
)
SELECT {columns} FROM taken ORDER BY priority DESC, due_at, seq
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who takes a job: a slot's incarnation, its worker and its process."""

    worker: UUID
    slot: UUID
    pid: int
    lease: timedelta


def take(candidates: QuerySet[BuildJob], holder: Holder) -> list[BuildJob]:
    """Claim the candidates (a locked queryset) in one statement; return them."""
    for _ in range(TRIES):
        try:
            with database.atomic():
                return _take(candidates, holder)
        except EmptyResultSet:
            return []  # nothing could match: a worker of no kinds
        except IntegrityError as error:
            if "job_runs_one_open_per" not in str(error):
                raise
            # Another claimer was a moment faster: look again, with a new snapshot.
    return []


def _take(candidates: QuerySet[BuildJob], holder: Holder) -> list[BuildJob]:
    statement = claim_sql(candidates, holder)  # compiled inside the transaction
    taken = list(BuildJob.objects.raw(*statement, using=database.alias()))
    for job in taken:
        signals.job_changed_after_commit(job, JobStatus.PENDING, using=database.alias())
    return taken


def claim_sql(
    candidates: QuerySet[BuildJob], holder: Holder
) -> tuple[str, tuple[Any, ...]]:
    """Return the statement that takes the candidates; needs an open transaction."""
    compiler = candidates.values("id").query.get_compiler(database.alias())
    sql, params = compiler.as_sql()
    columns = ", ".join(f'"{f.column}"' for f in BuildJob._meta.concrete_fields)
    statement = CLAIM.format(candidates=sql, columns=columns)
    return statement, (*params, holder.lease, holder.worker, holder.slot, holder.pid)


def promote_due(limit: int = 100) -> list[str]:
    """Make scheduled jobs pending whose time has come; return their queues."""
    jobs = BuildJob.objects.using(database.alias())
    due = jobs.filter(status=JobStatus.SCHEDULED, due_at__lte=Now()).order_by("due_at")
    with database.atomic():
        locked = due.select_for_update(skip_locked=True, no_key=True)[:limit]
        found = {job.pk: job for job in locked}
        jobs.filter(pk__in=found, status=JobStatus.SCHEDULED).update(
            status=JobStatus.PENDING
        )
        JobEvent.objects.using(database.alias()).bulk_create(
            JobEvent(
                job_id=job.pk,
                attempt=job.attempt,
                kind=states.PROMOTE.name,
                title=JobStatus.PENDING,
                actor=SYSTEM.label,
            )
            for job in found.values()
        )
        for job in found.values():
            job.status = JobStatus.PENDING
            signals.job_changed_after_commit(
                job, JobStatus.SCHEDULED, using=database.alias()
            )
    return sorted({job.queue for job in found.values()})
