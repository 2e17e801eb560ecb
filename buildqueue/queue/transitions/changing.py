"""How is one transition applied to one job?

In one transaction: lock the row under its guard, a guarded UPDATE that must hit it, the
run, what the run had under way outside, a timeline event, and, when the job ends, its
final hook and its parent. If the process dies before the commit nothing has happened;
after it everything has. Wake-ups and signals follow the commit and are only hints.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from django.db.models import BooleanField, F, Q
from django.db.models.expressions import RawSQL
from django.db.models.functions import Now

from ... import signals, states
from ...exceptions import InvalidTransition, LostLeaseError
from ...models import BuildJob, JobRun
from ...models.expressions import ClockTimestamp
from ...states import (
    FINAL,
    UNCLAIMED,
    WAITING,
    ActionStatus,
    JobStatus,
    RunOutcome,
)
from .. import database, logs, outbox, wakeups
from . import actionflow, families, waits
from .endings import run_final_hook
from .timeline import Change, record

MAX_CODE = 100  # as the columns have it
PARKED = WAITING | {JobStatus.PAUSED}
RUNS_AGAIN = {
    states.RESCUE,
    states.HAND_BACK,
    states.RELEASE,
    states.RETRY_LATER,
    states.SNOOZE,
    states.WAIT,
}
# By hand: each report asks it, and the ORM's EXISTS takes longer to build than to run.
HAS_ACTIONS = RawSQL(
    "EXISTS (SELECT 1 FROM buildqueue_jobaction WHERE job_id = buildqueue_buildjob.id)",
    [],
    output_field=BooleanField(),
)
# A run reports so itself that did not listen to OutcomeUnknown, or could not store it.
SEEMS_WELL = {states.FINISH, states.WITHDRAW}
WENT_WELL = {RunOutcome.SUCCEEDED, RunOutcome.WAITING}


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
        acted = getattr(before, "has_actions", True)
        if acted and before.lease_id is not None:
            change = _unless_unknown(before, change)
        _update(before, change)
        _end_run(before, change)
        _remember_wait(before, change)
        job = BuildJob.objects.using(database.alias()).get(pk=job_id)
        record(job, change.transition.name, change=change, run=before.lease_id)
        if change.waits_for is not None:
            outbox.tell_question(job, change.waits_for)
        if job.is_final:
            job = _end(run_final_hook(job), change, acted=acted)
        _tell(before, job, change)
        if job.status in WAITING:
            job = settle(job.pk, at_once=True) or job
    return job


def settle(job_id: UUID, *, at_once: bool = False) -> BuildJob | None:
    """Wake a waiting job, or fail it by its child, if its wait is over; else None.

    `at_once` in the transaction that begins the wait.
    """
    with database.atomic():
        jobs = BuildJob.objects.using(database.alias()).select_for_update(no_key=True)
        # Locked in whatever status it is: one that is about to wait comes before this
        # and is woken by it, or after it and sees what was committed with it.
        job = jobs.filter(pk=job_id).first()
        if job is None or job.status not in WAITING:
            return None
        due = waits.verdict(job)
        if due is not None and at_once:
            due = waits.slowed(job, due)
        return None if due is None else apply(job_id, due)


def _end(job: BuildJob, change: Change, *, acted: bool = True) -> BuildJob:
    """Do what belongs to every end, however the job came to it, behind its hook."""
    if acted:
        actionflow.cancel_undecided(job)
    if job.status != JobStatus.DONE:
        families.cancel_children_after_commit(job)
    if job.parent_id is not None:
        settle(job.parent_id)
    outbox.tell_change(job, change)
    return job


def retry_final_hook(job_id: UUID) -> bool:
    """Run a pending final hook again; true when it went well. A duty's call.

    It may find that the result is missing: then the job ends once more, failed.
    """
    with database.atomic():
        jobs = BuildJob.objects.using(database.alias())
        locked = jobs.select_for_update(no_key=True, skip_locked=True)
        job = locked.filter(pk=job_id, hook_pending=True).first()
        if job is None:
            return False
        before = job.status
        job = run_final_hook(job)
        if job.status != before:
            failed = Change(transition=states.RESULT_MISSING, target=JobStatus.FAILED)
            _end(job, failed)
            signals.job_changed_after_commit(job, before, using=database.alias())
    return not job.hook_pending


def _unless_unknown(before: BuildJob, change: Change) -> Change:
    """Have a job fail whose run has begun an outside effect that nobody knows the end of.

    Nobody repeats it, and a job that seems to have ended well could never be retried once
    it is settled; a person must look. A failure, and what a person wanted, stays as it is.
    """
    unknown = actionflow.unsettled(before)
    for action in unknown:
        if action.status == ActionStatus.EXECUTING:
            actionflow.leave_unknown(action)
    if not unknown or change.transition not in RUNS_AGAIN | SEEMS_WELL:
        return change
    titles = ", ".join(action.title for action in unknown)
    because = f" ({change.reason})" if change.reason else ""
    why = f"whether it happened is not known: {titles}{because}"
    error = {"error_code": "outcome_unknown", "error_msg": why}
    values = {k: v for k, v in change.values.items() if k != "result"} | error
    run = change.run
    if run is not None and run.get("outcome") in WENT_WELL:
        run = run | error | {"outcome": RunOutcome.FAILED}
        values["failures"] = F("failures") + 1
    return replace(
        change,
        transition=states.OUTCOME_UNKNOWN,
        target=JobStatus.FAILED,
        values=values,
        run=run,
        reason=why,
        waits_for=None,
    )


def _remember_wait(before: BuildJob, change: Change) -> None:
    if change.waits_for is not None:
        waits.remember(before, change.waits_for)
    elif before.status in PARKED and change.target not in PARKED:
        waits.remember(before, None)


def _storable(change: Change) -> Change:
    """Return the change without what PostgreSQL would refuse: handlers wrote the texts."""
    run = None if change.run is None else _fitting(change.run)
    return replace(
        change,
        reason=logs.storable(change.reason),
        values=_fitting(change.values),
        run=run,
        waits_for=logs.storable_json(change.waits_for),
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
    if fence:
        # What a run has proposed was there before its report. For anybody else's change
        # this would be as old as the statement, and not as the lock.
        locked = locked.annotate(has_actions=HAS_ACTIONS)
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


def _tell(before: BuildJob, job: BuildJob, change: Change) -> None:
    """Send hints after the commit: work, a free key, a revoked lease, an end."""
    if job.status == JobStatus.PENDING or before.serial_key:
        wakeups.wake(job.queue)
    if job.status == JobStatus.SCHEDULED:
        wakeups.tell_later()
    if before.worker is not None and not change.transition.fenced:
        wakeups.tell_revoked(before.worker)
    signals.job_changed_after_commit(job, before.status, using=database.alias())
