"""Of several processes that want one job, does exactly one get it, every time?

Two to eight real processes with connections of their own, behind a barrier, for two
hundred rounds. The job is handed back and raced for again a few times, so that attempts
that nobody, or two, have counted would show.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from buildqueue import states
from buildqueue.models import BuildJob, JobEvent, JobRun
from buildqueue.queue import transitions
from buildqueue.queue.outcomes import WORKER
from buildqueue.queue.transitions import Change
from buildqueue.states import JobStatus, RunOutcome
from tests.factories import make_job
from tests.support.racing import racers

MOST, ROUNDS, TIMES = 8, 200, 5


def claim(_: Any) -> list[UUID]:
    """Take what there is; done in the processes, which import this module."""
    from buildqueue.queue import claiming
    from buildqueue.queue.claiming import Scope
    from tests.support.turns import holder

    return [job.lease_id for job in claiming.claim(Scope(), holder()) if job.lease_id]


def _hand_back(job: BuildJob) -> None:
    change = Change(
        transition=states.HAND_BACK,
        target=JobStatus.PENDING,
        actor=WORKER,
        run={"outcome": RunOutcome.RELEASED},
    )
    transitions.apply(job.pk, change, fence=job.lease_id)


@pytest.mark.slow
def test_of_two_to_eight_processes_exactly_one_wins_two_hundred_times(
    committed: None,
) -> None:
    with racers(MOST, claim) as all_:
        for number in range(ROUNDS):
            attempt = number % TIMES + 1
            if attempt == 1:
                job = make_job(serial_key=f"key {number}" if number % 2 else None)

            got = all_.race(2 + number % (MOST - 1), None)

            winners = [lease for leases in got for lease in leases]
            job.refresh_from_db()
            assert winners == [job.lease_id]
            assert (job.status, job.attempt) == (JobStatus.IN_PROGRESS, attempt)
            runs = JobRun.objects.filter(job=job)
            assert runs.filter(ended_at=None).get().pk == job.lease_id
            assert runs.count() == attempt
            assert JobEvent.objects.filter(job=job, kind="claim").count() == attempt
            if attempt < TIMES:
                _hand_back(job)
    assert JobRun.objects.count() == ROUNDS
