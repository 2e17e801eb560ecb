"""What is left of an act on many rows whose server is killed in the middle?"""

from __future__ import annotations

import pytest

from buildqueue.admin import applying
from buildqueue.admin.jobacts import JOB_ACTS
from buildqueue.models import BuildJob, JobEvent
from buildqueue.queue.outcomes import Actor
from tests.factories import make_job
from tests.support.killing import killed_before

pytestmark = pytest.mark.usefixtures("committed")

ANNA = Actor(label="anna", id="7")
ROWS = 3


def _cancelled_of(jobs: list[BuildJob]) -> list[bool]:
    """Tell of each job whether it is cancelled; its event must say the same."""
    found = []
    for job in jobs:
        job.refresh_from_db()
        told = JobEvent.objects.filter(job_id=job.pk, kind="cancel").count()
        assert told == (job.status == "cancelled"), "a job that is half cancelled"
        found.append(bool(told))
    return found


def test_the_rows_so_far_are_done_and_the_rest_untouched() -> None:
    [cancel] = [act for act in JOB_ACTS if act.name == "cancel"]
    seen = set()

    for number in range(1, 200):
        jobs = [make_job() for _ in range(ROWS)]

        def act(jobs: list[BuildJob] = jobs) -> object:
            return applying.apply(cancel, jobs, ANNA, "because", {})

        killed = killed_before(number, act)
        done = _cancelled_of(jobs)
        assert done == sorted(done, reverse=True), "one was left out in between"
        seen.add(sum(done))
        if not killed:
            break

    assert seen == set(range(ROWS + 1))
