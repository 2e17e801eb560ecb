"""How does a job's status change? Here, and nowhere else.

A change is one transaction: lock the row under its guard, a guarded UPDATE that must
hit it, the run, a timeline event, and, when the job ends, its final hook. If the
process dies before the commit nothing has happened; after it everything has.
Wake-ups and signals follow the commit and are only hints.

Locks are taken in the order job, run, build row. `take` (the claim) locks with SKIP
LOCKED and so never waits.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.core.exceptions import EmptyResultSet
from django.db import IntegrityError
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from .. import signals, states
from ..exceptions import InvalidTransition, LostLeaseError, ResultMissing
from ..models import BuildJob, JobEvent, JobRun
from ..models.expressions import ClockTimestamp
from ..states import (
    FINAL,
    UNCLAIMED,
    EventKind,
    JobStatus,
    RunOutcome,
    Transition,
)
from . import database, handlers, logs, wakeups
from .outcomes import SYSTEM, Actor

logger = logging.getLogger(__name__)

MAX_CODE = 100  # as the columns have it


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One transition to apply to one job."""

    transition: Transition
    target: JobStatus
    actor: Actor = SYSTEM
    reason: str = ""
    values: dict[str, Any] = field(default_factory=dict)  # other columns of the job
    run: dict[str, Any] | None = None  # how the run ended; None: its process may live
    detail: dict[str, Any] = field(default_factory=dict)  # of the event

    def __post_init__(self) -> None:
        """Refuse a target that the transition does not have: a fault of the caller."""
        if self.target not in self.transition.targets:
            raise ValueError(f"{self.transition.name} does not lead to {self.target}")


def apply(
    job_id: UUID,
    change: Change,
    *,
    fence: UUID | None = None,
    guard: Q | None = None,
    skip_locked: bool = False,
) -> BuildJob:
    """Apply a change and return the job as it is then.

    A worker's change carries its fence, the lease's id: LostLeaseError when the lease is
    gone. Anybody else's: InvalidTransition when the status, or the guard, does not allow
    it, or when the row is locked and was to be skipped. Opens its own transaction, or
    joins the caller's.
    """
    change = _storable(change)
    with database.atomic():
        before = _lock(job_id, change, fence, guard or Q(), skip_locked)
        _update(before, change)
        _end_run(before, change)
        job = BuildJob.objects.using(database.alias()).get(pk=job_id)
        record(job, change.transition.name, change=change, run=before.lease_id)
        if job.is_final:
            job = _run_final_hook(job)
        _tell(before, job, change)
    return job


def _storable(change: Change) -> Change:
    """Return the change without what PostgreSQL would refuse: handlers wrote the texts."""
    run = None if change.run is None else _fitting(change.run)
    return replace(
        change,
        reason=logs.storable(change.reason),
        values=_fitting(change.values),
        run=run,
        detail=logs.storable_json(change.detail),
    )


def _fitting(columns: dict[str, Any]) -> dict[str, Any]:
    clean: dict[str, Any] = logs.storable_json(columns)
    if isinstance(code := clean.get("error_code"), str):
        clean["error_code"] = code[:MAX_CODE]
    return clean


def _lock(
    job_id: UUID, change: Change, fence: UUID | None, guard: Q, skip_locked: bool
) -> BuildJob:
    if change.transition.fenced != (fence is not None):
        raise TypeError(f"{change.transition.name} is a worker's change: fence it")
    # By id and lease alone: beside a status the planner may walk the partial index of
    # running jobs, which is full of dead entries.
    held = (
        Q(lease_id=fence) if fence else Q(status__in=sorted(change.transition.sources))
    )
    jobs = BuildJob.objects.using(database.alias())
    locked = jobs.select_for_update(no_key=True, skip_locked=skip_locked)
    if job := locked.filter(held, guard, pk=job_id).first():
        return job
    if fence:
        raise LostLeaseError(job_id, fence)
    found = jobs.filter(pk=job_id).values_list("status", flat=True).first()
    raise InvalidTransition(job_id, change.transition.name, found)


def _update(before: BuildJob, change: Change) -> None:
    values: dict[str, Any] = {
        "status": change.target,
        "lease_id": None,
        "lease_until": None,
        "slot": None,
        "worker": None,
        "completed_at": Now() if change.target in FINAL else None,
    }
    if change.target in UNCLAIMED:
        values["picked_at"] = None
    if change.target == JobStatus.DONE:
        # What went wrong in an earlier attempt stands on its run, not on a done job.
        values |= {"error_code": None, "error_msg": None}
    hit = (
        BuildJob.objects.using(database.alias())
        .filter(pk=before.pk, status=before.status, lease_id=before.lease_id)
        .update(**values | change.values)
    )
    if hit != 1:
        raise InvalidTransition(before.pk, change.transition.name, before.status)


def _end_run(before: BuildJob, change: Change) -> None:
    """Close the run, or leave it open until its process is known dead."""
    if before.lease_id is None:
        return
    runs = JobRun.objects.using(database.alias())
    run = runs.filter(pk=before.lease_id, ended_at__isnull=True)
    if change.run is None:
        run.update(expires_at=before.lease_until)
    else:
        run.update(ended_at=ClockTimestamp(), **change.run)


def record(
    job: BuildJob,
    kind: str,
    *,
    change: Change | None = None,
    run: UUID | None = None,
    title: str = "",
    detail: dict[str, Any] | None = None,
) -> None:
    """Write one event of the job's timeline."""
    JobEvent.objects.using(database.alias()).create(
        job_id=job.pk,
        run=run,
        attempt=job.attempt,
        kind=kind,
        title=title or (change.target if change else ""),
        detail=detail if detail is not None else (change.detail if change else {}),
        actor=change.actor.label if change else "",
        actor_id=change.actor.id if change else "",
        reason=change.reason if change else "",
    )


def _run_final_hook(job: BuildJob) -> BuildJob:
    """Run the kind's final hook; one that raises never keeps the job from ending.

    "Done" whose result is not in the database becomes failed with `result_missing`, and
    the hook is called again for the failed job.
    """
    fault = _call_final_hook(job)
    if isinstance(fault, ResultMissing) and job.status == JobStatus.DONE:
        return _run_final_hook(_fail_for_missing_result(job, str(fault)))
    if fault is not None:
        _remember_failed_hook(job, fault)
    elif job.hook_pending:
        BuildJob.objects.using(database.alias()).filter(pk=job.pk).update(
            hook_pending=False
        )
        job.hook_pending = False
    return job


def _call_final_hook(job: BuildJob) -> Exception | None:
    """Call the hook in a savepoint and return what it raised."""
    found = handlers.hooks_of(job.kind)
    if found is None or found.on_final is None:
        return None
    try:
        with database.atomic():
            found.on_final(job)
    except Exception as error:  # a hook of any host: recorded, retried by a duty
        return error
    return None


def _remember_failed_hook(job: BuildJob, fault: Exception) -> None:
    """Mark the job for the duty; told once, however often the hook raises again."""
    logger.error("final hook of job %s failed", job.pk, exc_info=fault)
    if job.hook_pending:
        return
    jobs = BuildJob.objects.using(database.alias())
    jobs.filter(pk=job.pk).update(hook_pending=True)
    job.hook_pending = True
    message = logs.storable(f"{type(fault).__name__}: {fault}"[:2000])
    record(job, EventKind.FINAL_HOOK_FAILED, detail={"error": message})


def _fail_for_missing_result(job: BuildJob, reason: str) -> BuildJob:
    """Take "done" back, on the job and on its run, and return the failed job."""
    reason = logs.storable(reason) or "the handler said done but left no result"
    error = {"error_code": "result_missing", "error_msg": reason}
    jobs = BuildJob.objects.using(database.alias())
    jobs.filter(pk=job.pk).update(status=JobStatus.FAILED, result=None, **error)
    runs = JobRun.objects.using(database.alias())
    runs.filter(job_id=job.pk, attempt=job.attempt).update(
        outcome=RunOutcome.FAILED, **error
    )
    failed = jobs.get(pk=job.pk)
    change = Change(
        transition=states.RESULT_MISSING, target=JobStatus.FAILED, reason=reason
    )
    record(failed, states.RESULT_MISSING.name, change=change)
    return failed


def retry_final_hook(job_id: UUID) -> bool:
    """Run a pending final hook again; true when it went well. A duty's call."""
    with database.atomic():
        jobs = BuildJob.objects.using(database.alias())
        job = (
            jobs.select_for_update(no_key=True, skip_locked=True)
            .filter(pk=job_id, hook_pending=True)
            .first()
        )
        if job is None:
            return False
        ended = _run_final_hook(job)
        if ended.status != job.status:
            signals.job_changed_after_commit(ended, job.status, using=database.alias())
    return not ended.hook_pending


def _tell(before: BuildJob, job: BuildJob, change: Change) -> None:
    """Send hints after the commit: work, a free key, a revoked lease, an end."""
    if job.status == JobStatus.PENDING or before.serial_key:
        wakeups.wake(job.queue)
    if job.status == JobStatus.SCHEDULED:
        wakeups.tell_later()
    if before.worker is not None and not change.transition.fenced:
        wakeups.tell_revoked(before.worker)
    signals.job_changed_after_commit(job, before.status, using=database.alias())


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


TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who takes a job: a slot's incarnation, its worker and its process."""

    worker: UUID
    slot: UUID
    pid: int
    lease: timedelta


def take(candidates: QuerySet[BuildJob], holder: Holder) -> list[BuildJob]:
    """Claim the candidates (a locked queryset) in one statement; return them.

    If the process dies after it, the leases end or the slot's death is seen, and the
    jobs are rescued.
    """
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
    statement = _claim_sql(candidates, holder)  # compiled inside the transaction
    taken = list(BuildJob.objects.raw(*statement, using=database.alias()))
    for job in taken:
        signals.job_changed_after_commit(job, JobStatus.PENDING, using=database.alias())
    return taken


def _claim_sql(
    candidates: QuerySet[BuildJob], holder: Holder
) -> tuple[str, tuple[Any, ...]]:
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
