"""Is a wait for nothing over at once, and a handler that never learns slowed down?"""

from __future__ import annotations

import pytest
from django.db import transaction

from buildqueue.models import JobEvent, JobProgress
from buildqueue.queue.outcomes import Wait, WaitForApproval, WaitForChildren
from buildqueue.states import JobStatus
from tests.factories import make_job
from tests.support.jobs import fresh, kinds
from tests.support.turns import claim, report

pytestmark = pytest.mark.usefixtures("committed")


@pytest.mark.parametrize(
    "outcome", [WaitForApproval(), WaitForChildren()], ids=["approval", "children"]
)
def test_a_wait_for_nothing_is_over_in_the_same_transaction(outcome: Wait) -> None:
    job = make_job(JobStatus.IN_PROGRESS)

    with transaction.atomic():
        report(job, outcome)
        seen = fresh(job).status

    assert seen == JobStatus.PENDING
    assert kinds(job) == ["wait", "wake"]
    assert JobProgress.objects.get(pk=job.pk).waits_for is None
    again = claim()
    assert again is not None
    assert (again.pk, again.attempt) == (job.pk, 2)


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(10, 0), (11, 1), (40, 30), (1000, 60)]
)
def test_a_handler_that_waits_for_nothing_again_and_again_is_slowed_down(
    attempt: int, seconds: int
) -> None:
    waiting = make_job(JobStatus.IN_PROGRESS, attempt=attempt)

    job = report(waiting, WaitForChildren())

    event = JobEvent.objects.get(job_id=job.pk, kind="wake")
    later = (fresh(job).due_at - event.created_at).total_seconds()
    assert max(later, 0) == pytest.approx(seconds, abs=1)
    assert (claim() is None) == (seconds > 0)
