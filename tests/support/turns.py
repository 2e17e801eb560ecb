"""What happens when the queue gets one turn? The next job is claimed and run, here.

By the claim and the runner of a real slot, in this process: for handlers that behave.
"""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from django.utils import timezone

from buildqueue.models import BuildJob, JobAction, JobEvent
from buildqueue.queue import actions, claiming, transitions
from buildqueue.queue.outcomes import Outcome
from buildqueue.queue.transitions import Holder
from buildqueue.states import ActionStatus
from buildqueue.worker import runner


def claim() -> BuildJob | None:
    """Claim the next job, if there is one."""
    holder = Holder(
        worker=uuid.uuid4(), slot=uuid.uuid4(), pid=4711, lease=timedelta(minutes=1)
    )
    found = claiming.claim(claiming.Scope(), holder)
    return found[0] if found else None


def turn() -> BuildJob | None:
    """Claim the next job, run it, and return it as it is then; None when none is due."""
    job = claim()
    if job is None:
        return None
    runner.run(job)
    return fresh(job)


def turns(most: int = 100) -> list[BuildJob]:
    """Take turns until nothing is due; return who ran, in that order."""
    ran: list[BuildJob] = []
    while (job := turn()) is not None:
        ran.append(job)
        assert len(ran) <= most, f"it does not end: {ran}"
    return ran


def report(job: BuildJob, outcome: Outcome) -> BuildJob:
    """Report an outcome for a claimed job, as its run would."""
    change = runner.change_of(job, outcome)
    return transitions.apply(job.pk, change, fence=job.lease_id)


def fresh(job: BuildJob) -> BuildJob:
    """Return the job as it is stored now."""
    return BuildJob.objects.get(pk=job.pk)


def story(job: BuildJob) -> list[tuple[str, str]]:
    """Return the kinds and titles of the job's events, in order."""
    events = JobEvent.objects.filter(job_id=job.pk).order_by("pk")
    return list(events.values_list("kind", "title"))


def kinds(job: BuildJob) -> list[str]:
    """Return the kinds of the job's events, in order."""
    return [kind for kind, _ in story(job)]


def make_action(
    job: BuildJob, status: str = ActionStatus.AWAITING_REVIEW, **values: Any
) -> JobAction:
    """Make an action of a job, in any status."""
    content = values.pop("content", {"to": "anna"})
    values.setdefault("expires_at", timezone.now() + timedelta(hours=1))
    if status == ActionStatus.EXECUTING:
        values.setdefault("lease_id", job.lease_id)
        values.setdefault("started_at", timezone.now())
    return JobAction.objects.create(
        job=job,
        key=values.pop("key", "mail"),
        title="Mail to Anna",
        content=content,
        content_hash=actions.hash_of(content),
        status=status,
        attempt=1,
        **values,
    )
