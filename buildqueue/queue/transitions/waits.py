"""What does a waiting job wait for, and has it come?

Told from rows that are there, so that nothing depends on who looks or how often: a job
whose wait is over is woken by the transaction that ends it, by its own when it was over
before it began, and by a duty should both have failed. Call with the job's row locked.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from ... import states
from ...models import BuildJob, JobAction, JobProgress
from ...states import ActionStatus, JobStatus
from .. import database
from .timeline import Change

FAILED = (JobStatus.FAILED, JobStatus.CANCELLED)
PATIENT_ATTEMPTS = 10  # runs that may find their wait over before it begins
LONGEST_PAUSE = 60  # seconds, from the seventieth on


def remember(job: BuildJob, waits_for: dict[str, Any] | None) -> None:
    """Store what the job waits for; None: nothing any more."""
    rows = JobProgress.objects.using(database.alias()).filter(pk=job.pk)
    if waits_for is None:
        # Only if there is something: a revoked run may hold the row in a last step, and
        # would wait in it for the job's row that is locked here.
        rows.filter(waits_for__isnull=False).update(waits_for=None, lease_id=None)
    elif not rows.update(waits_for=waits_for, lease_id=None):
        rows.create(job_id=job.pk, waits_for=waits_for)


def waited_for(job: BuildJob) -> dict[str, Any]:
    """Return what the job waits for, or waited for when it was paused."""
    rows = JobProgress.objects.using(database.alias())
    found = rows.filter(pk=job.pk).values_list("waits_for", flat=True).first()
    return found if isinstance(found, dict) else {}


def verdict(job: BuildJob) -> Change | None:
    """Return the change that a waiting job is due, if its wait is over."""
    if job.status == JobStatus.WAITING_APPROVAL:
        return None if _undecided(job) else _woken("decided")
    if job.status == JobStatus.WAITING_CHILDREN:
        return _of_children(job)
    return None


def _undecided(job: BuildJob) -> bool:
    rows = JobAction.objects.using(database.alias())
    return rows.filter(job_id=job.pk, status=ActionStatus.AWAITING_REVIEW).exists()


def _of_children(job: BuildJob) -> Change | None:
    children = BuildJob.objects.using(database.alias()).filter(parent_id=job.pk)
    if waited_for(job).get("on_failure", "fail") == "fail":
        failed = children.filter(status__in=FAILED).order_by("completed_at").first()
        if failed is not None:
            return _failed_by(failed)
    if children.filter(completed_at__isnull=True).exists():
        return None
    return _woken("all children have ended")


def _woken(reason: str) -> Change:
    return Change(transition=states.WAKE, target=JobStatus.PENDING, reason=reason)


def slowed(job: BuildJob, change: Change) -> Change:
    """Return the wake of a wait that was over before it began, later from time to time.

    A handler that waits for nothing, again and again, must not keep a slot busy for ever.
    """
    seconds = min(max(0, job.attempt - PATIENT_ATTEMPTS), LONGEST_PAUSE)
    if change.transition is not states.WAKE or not seconds:
        return change
    return replace(change, values={"due_at": Now() + timedelta(seconds=seconds)})


def _failed_by(child: BuildJob) -> Change:
    why = f"child {child.pk} ended {child.status}"
    if child.error_msg:
        why += f": {child.error_msg}"
    return Change(
        transition=states.CHILD_FAILED,
        target=JobStatus.FAILED,
        reason=why[:2000],
        values={"error_code": "child_failed", "error_msg": why[:2000]},
        detail={"child": str(child.pk), "code": "child_failed"},
    )


def over(limit: int) -> list[UUID]:
    """Return waiting jobs whose wait is over, though nobody woke them."""
    jobs = BuildJob.objects.using(database.alias())
    undecided = JobAction.objects.using(database.alias()).filter(
        job_id=OuterRef("pk"), status=ActionStatus.AWAITING_REVIEW
    )
    decided = Q(status=JobStatus.WAITING_APPROVAL) & ~Exists(undecided)
    children = jobs.filter(parent_id=OuterRef("pk"))
    ended = ~Exists(children.filter(completed_at__isnull=True))
    broken = Q(progress__waits_for__on_failure="fail") & Exists(
        children.filter(status__in=FAILED)
    )
    alone = Q(status=JobStatus.WAITING_CHILDREN) & (ended | broken)
    return list(jobs.filter(decided | alone).values_list("pk", flat=True)[:limit])
