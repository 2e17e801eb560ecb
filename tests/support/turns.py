"""What happens when the queue gets one turn? The next job is claimed and run, here.

By the claim and the runner of a real slot, in this process: for handlers that behave.
"""

from __future__ import annotations

import uuid
from datetime import timedelta

from buildqueue.models import BuildJob
from buildqueue.queue import claiming, transitions
from buildqueue.queue.outcomes import Outcome
from buildqueue.queue.transitions import Holder
from buildqueue.worker import judging, runner

from .jobs import fresh


def holder(lease: float = 60.0) -> Holder:
    """Return a slot of a worker that nobody else is."""
    return Holder(
        worker=uuid.uuid4(),
        slot=uuid.uuid4(),
        pid=4711,
        lease=timedelta(seconds=lease),
    )


def claims() -> list[BuildJob]:
    """Claim the next job; a list of it, or of none."""
    return claiming.claim(claiming.Scope(), holder())


def claim() -> BuildJob | None:
    """Claim the next job, if there is one."""
    found = claims()
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
    change = judging.change_of(job, outcome)
    return transitions.apply(job.pk, change, fence=job.lease_id)
