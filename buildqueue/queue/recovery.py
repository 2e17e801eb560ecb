"""What becomes of a run whose process or worker died?

Its job is pending again, or failed at the allowance, with the cause on the run. Every
rescue re-checks under the row's lock that the lease it wants to end is still the one it
saw, so two rescuers and a late finish cannot all win. All functions are idempotent:
dying half-way leaves the rest for the next call.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from .. import states
from ..exceptions import InvalidTransition, LostLeaseError
from ..models import BuildJob, JobEvent, JobRun
from ..models.expressions import ClockTimestamp
from ..states import EventKind, JobStatus, RunOutcome
from . import actions, database, failures, handlers, leases, transitions, wakeups
from .outcomes import SYSTEM, Actor, Cause
from .transitions import families, waits

logger = logging.getLogger(__name__)

FREE_CLAIMS = 10  # that may end before the start, beside those that are accounted for

LEASE_OVER = Cause(
    outcome=RunOutcome.LOST,
    code="lease_over",
    message="its worker went silent and the lease ran out",
)
WORKER_DIED = Cause(
    outcome=RunOutcome.LOST, code="worker_died", message="its worker died"
)
REVOKED = Cause(
    outcome=RunOutcome.INTERRUPTED, code="revoked", message="its lease was taken away"
)


def run_values(cause: Cause) -> dict[str, Any]:
    """Return the columns of a run that a cause of death fills."""
    return {
        "outcome": cause.outcome,
        "error_code": cause.code,
        "error_msg": cause.message,
        "exit_code": cause.exit_code,
        "exit_signal": cause.exit_signal,
        "peak_memory_bytes": cause.peak_memory_bytes,
        "cpu_seconds": cause.cpu_seconds,
    }


def rescue_change(
    job: BuildJob, cause: Cause, *, actor: Actor = SYSTEM
) -> transitions.Change:
    """Return the change for a job whose run died: again, or failed at the allowance.

    Failed at once if its kind is not to run again by itself.
    """
    known = handlers.hooks_of(job.kind)
    once = known is not None and not known.again_after_death
    spent = once or job.failures + job.crashes + 1 >= job.max_attempts
    change = transitions.Change(
        transition=states.RESCUE,
        target=JobStatus.FAILED if spent else JobStatus.PENDING,
        actor=actor,
        reason=cause.message,
        values={"crashes": F("crashes") + 1},
        run=run_values(cause),
        detail={"code": cause.code, **cause.detail},
    )
    if not spent:
        return change
    ended = failures.exhausted(cause.message)
    if once:
        again = "a person must decide whether it runs again"
        ended = {"error_code": cause.code, "error_msg": f"{cause.message}; {again}"}
    return replace(change, values=change.values | ended)


def rescue(jobs: Iterable[BuildJob], cause: Cause) -> int:
    """Rescue each job whose lease is still the one seen; return how many."""
    by_lease = cause is LEASE_OVER
    rescued = 0
    for job in jobs:
        seen = Q(lease_id=job.lease_id)
        if by_lease:
            seen &= Q(lease_until__lt=ClockTimestamp())
        change = rescue_change(job, cause)
        try:
            # What is locked now is found again by the next tick, a dead slot's is not.
            after = transitions.apply(job.pk, change, guard=seen, skip_locked=by_lease)
        except InvalidTransition:
            continue  # it finished, was renewed, or another rescuer was faster
        rescued += 1
        logger.warning(
            "job %s %s after attempt %s: %s",
            job.pk,
            "failed" if after.is_final else "runs again",
            job.attempt,
            after.error_msg if after.is_final else cause.message,
            extra={"job_id": str(job.pk), "attempt": job.attempt, "cause": cause.code},
        )
    return rescued


def rescue_slot(slot: UUID, cause: Cause, *, started: UUID | None) -> int:
    """Rescue what a dead slot held, and close its runs that were revoked before.

    Only the run that was told to start is charged with the death; what was claimed and
    not started goes back free, unless it seems to be what kills: a payload that ends
    its process while it is read would otherwise be claimed for ever. Hence the 10
    claims that nothing accounts for; a job that has snoozed or waited as often pays for
    such a death, once, which is the smaller evil.

    Called once the process tree is gone and the incarnation's session lock is free: a
    claim can commit after its process was reaped.
    """
    jobs = BuildJob.objects.using(database.alias())
    held = list(jobs.filter(slot=slot, status=JobStatus.IN_PROGRESS))
    charged = [job for job in held if job.lease_id == started or _suspect(job)]
    rescued = rescue(charged, cause)
    why = f"not started: {cause.message}"
    free = [job for job in held if job not in charged]
    rescued += sum(give_back(job, cause, reason=why) for job in free)
    end_revoked_runs(runs_of_slot(slot), cause)
    return rescued


def _suspect(job: BuildJob) -> bool:
    return job.attempt > job.failures + job.crashes + FREE_CLAIMS


def give_back(
    job: BuildJob, cause: Cause, *, reason: str, actor: Actor = SYSTEM
) -> bool:
    """Hand back a job whose run is gone, with nothing counted; false when it was taken."""
    change = transitions.Change(
        transition=states.HAND_BACK,
        target=JobStatus.PENDING,
        actor=actor,
        reason=reason,
        run=run_values(cause) | {"outcome": RunOutcome.RELEASED},
        detail={"code": cause.code},
    )
    try:
        transitions.apply(job.pk, change, fence=job.lease_id)
    except LostLeaseError:
        return False
    return True


def runs_of_slot(slot: UUID) -> QuerySet[JobRun]:
    """Return all runs of one incarnation of a slot."""
    return _all_runs().filter(slot=slot)


def _all_runs() -> QuerySet[JobRun]:
    return JobRun.objects.using(database.alias())


def rescue_worker(worker: UUID) -> int:
    """Rescue what a worker held that is proved dead."""
    jobs = BuildJob.objects.using(database.alias())
    held = list(jobs.filter(worker=worker, status=JobStatus.IN_PROGRESS))
    rescued = rescue(held, WORKER_DIED)
    end_revoked_runs(_all_runs().filter(worker=worker), WORKER_DIED)
    return rescued


def end_own_run(lease: UUID) -> bool:
    """Close a revoked run from its own process: its handler has returned.

    Without it the job, and its serial key, would wait for the run's last moment.
    """
    return end_revoked_runs(_all_runs().filter(pk=lease), REVOKED) == 1


def rescue_expired() -> int:
    """Rescue every job whose lease is over, and end revoked runs past their moment."""
    rescued = rescue(leases.over(), LEASE_OVER)
    overdue = _all_runs().filter(expires_at__lt=ClockTimestamp())
    end_revoked_runs(overdue, LEASE_OVER)
    return rescued


def end_revoked_runs(runs: QuerySet[JobRun], cause: Cause) -> int:
    """Close open runs whose lease was taken away; their process is dead now."""
    jobs = BuildJob.objects.using(database.alias())
    current = jobs.filter(pk=OuterRef("job_id"), lease_id=OuterRef("id"))
    revoked = runs.filter(~Exists(current), ended_at__isnull=True)
    ended = 0
    for run in revoked:
        with database.atomic():
            values = run_values(cause) | {
                "outcome": RunOutcome.INTERRUPTED,
                "ended_at": ClockTimestamp(),
            }
            open_run = _all_runs().filter(pk=run.pk, ended_at__isnull=True)
            if not open_run.update(**values):
                continue
            ended += 1
            _tell_end(run, cause)
    return ended


def _tell_end(run: JobRun, cause: Cause) -> None:
    JobEvent.objects.using(database.alias()).create(
        job_id=run.job_id,
        run=run.pk,
        attempt=run.attempt,
        kind=EventKind.RUN_ENDED,
        title=RunOutcome.INTERRUPTED,
        detail={"signal": cause.exit_signal, "exit_code": cause.exit_code},
        actor="system",
    )
    # The job itself, released or retried meanwhile, or the next one under its key, may
    # start now.
    queue = BuildJob.objects.using(database.alias()).filter(pk=run.job_id)
    for name in queue.values_list("queue", flat=True):
        wakeups.wake(name)


def retry_hooks(limit: int = 100) -> int:
    """Run the final hooks again that raised; return how many went well."""
    jobs = BuildJob.objects.using(database.alias()).filter(hook_pending=True)
    # At random: hooks that fail for ever must not keep the others from their turn.
    waiting = list(jobs.order_by("?").values_list("pk", flat=True)[:limit])
    return sum(transitions.retry_final_hook(job_id) for job_id in waiting)


def repair_pairs(limit: int = 100) -> int:
    """Make whole what a crash has left half made; return how many there were.

    Waits that are over and were not woken, children of parents that did not end done,
    effects under way whose run is gone, reviews that nobody made in time.
    """
    woken = [job_id for job_id in waits.over(limit) if transitions.settle(job_id)]
    orphans = families.open_children_of_ended(limit)
    cancelled = sum(families.cancel_child(child) for child in orphans)
    return len(woken) + cancelled + actions.sweep(limit) + actions.expire_old(limit)
