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
from ..exceptions import InvalidTransition
from ..models import BuildJob, JobEvent, JobRun
from ..models.expressions import ClockTimestamp
from ..states import EventKind, JobStatus, RunOutcome
from . import database, leases, transitions, wakeups
from .outcomes import SYSTEM, Actor, Cause

logger = logging.getLogger(__name__)

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
    """Return the change for a job whose run died: again, or failed at the allowance."""
    spent = job.failures + job.crashes + 1 >= job.max_attempts
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
    ended = {
        "error_code": "max_attempts_exhausted",
        "error_msg": f"max attempts exceeded: {cause.message}",
    }
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
            transitions.apply(job.pk, change, guard=seen, skip_locked=by_lease)
        except InvalidTransition:
            continue  # it finished, was renewed, or another rescuer was faster
        rescued += 1
        logger.warning(
            "job %s rescued after attempt %s: %s",
            job.pk,
            job.attempt,
            cause.message,
            extra={"job_id": str(job.pk), "attempt": job.attempt, "cause": cause.code},
        )
    return rescued


def rescue_slot(slot: UUID, cause: Cause) -> int:
    """Rescue what a dead slot held, and close its runs that were revoked before.

    Called once the process tree is gone and the incarnation's session lock is free: a
    claim can commit after its process was reaped.
    """
    jobs = BuildJob.objects.using(database.alias())
    held = list(jobs.filter(slot=slot, status=JobStatus.IN_PROGRESS))
    rescued = rescue(held, cause)
    end_revoked_runs(runs_of_slot(slot), cause)
    return rescued


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
