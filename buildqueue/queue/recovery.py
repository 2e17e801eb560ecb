"""What becomes of a run whose process or worker died?

Its job is pending again, or failed at the allowance, with the cause on the run. Every
rescue re-checks under the row's lock that the lease it wants to end is still the one it
saw, so two rescuers and a late finish cannot all win. All functions are idempotent:
dying half-way leaves the rest for the next call.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from ..exceptions import InvalidTransition
from ..models import BuildJob, JobEvent, JobRun
from ..models.expressions import ClockTimestamp
from ..states import EventKind, JobStatus, RunOutcome
from . import database, leases, transitions, wakeups
from .outcomes import Cause

logger = logging.getLogger(__name__)

LEASE_OVER = Cause(
    outcome=RunOutcome.LOST,
    code="lease_over",
    message="its worker went silent and the lease ran out",
)
WORKER_DIED = Cause(
    outcome=RunOutcome.LOST, code="worker_died", message="its worker died"
)


def rescue(jobs: Iterable[BuildJob], cause: Cause) -> int:
    """Rescue each job whose lease is still the one seen; return how many."""
    rescued = 0
    for job in jobs:
        seen = Q(lease_id=job.lease_id)
        if cause is LEASE_OVER:
            seen &= Q(lease_until__lt=ClockTimestamp())
        try:
            transitions.apply(job.pk, transitions.rescue_change(job, cause), guard=seen)
        except InvalidTransition:
            continue  # it finished, was renewed, or another rescuer was faster
        rescued += 1
        logger.warning(
            "job rescued",
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
    return JobRun.objects.using(database.alias()).filter(slot=slot)


def rescue_worker(worker: UUID) -> int:
    """Rescue what a worker held that is proved dead."""
    jobs = BuildJob.objects.using(database.alias())
    held = list(jobs.filter(worker=worker, status=JobStatus.IN_PROGRESS))
    rescued = rescue(held, WORKER_DIED)
    runs = JobRun.objects.using(database.alias()).filter(worker=worker)
    end_revoked_runs(runs, WORKER_DIED)
    return rescued


def rescue_expired() -> int:
    """Rescue every job whose lease is over, and end revoked runs past their moment."""
    rescued = rescue(leases.over(), LEASE_OVER)
    runs = JobRun.objects.using(database.alias())
    end_revoked_runs(runs.filter(expires_at__lt=ClockTimestamp()), LEASE_OVER)
    return rescued


def end_revoked_runs(runs: QuerySet[JobRun], cause: Cause) -> int:
    """Close open runs whose lease was taken away; their process is dead now."""
    jobs = BuildJob.objects.using(database.alias())
    current = jobs.filter(pk=OuterRef("job_id"), lease_id=OuterRef("id"))
    revoked = runs.filter(~Exists(current), ended_at__isnull=True)
    ended = 0
    for run in revoked:
        with database.atomic():
            values = transitions.run_values(cause) | {
                "outcome": RunOutcome.INTERRUPTED,
                "ended_at": ClockTimestamp(),
            }
            open_run = JobRun.objects.using(database.alias()).filter(
                pk=run.pk, ended_at__isnull=True
            )
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
    if run.serial_key:
        queue = BuildJob.objects.using(database.alias()).filter(pk=run.job_id)
        for name in queue.values_list("queue", flat=True):
            wakeups.wake(name)


def retry_hooks(limit: int = 100) -> int:
    """Run the final hooks again that raised; return how many went well."""
    jobs = BuildJob.objects.using(database.alias()).filter(hook_pending=True)
    waiting = list(jobs.values_list("pk", flat=True)[:limit])
    return sum(transitions.retry_final_hook(job_id) for job_id in waiting)
