"""Does a run that asks hear what became of its lease, and what people answered?"""

from __future__ import annotations

import pytest

from buildqueue.exceptions import LostLeaseError
from buildqueue.models import JobProgress
from buildqueue.queue import verbs
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import Actor
from buildqueue.states import JobStatus
from tests.support.attempts import elsewhere, taken_over
from tests.support.jobs import fresh

ANNA = Actor(label="anna")

pytestmark = pytest.mark.usefixtures("committed")


def test_a_handler_that_asks_hears_that_its_job_was_cancelled(ctx: Context) -> None:
    assert not ctx.cancelled
    ctx._looked = float("-inf")  # the second is over
    verbs.cancel(ctx.job.pk, actor=ANNA)

    assert ctx.cancelled
    assert ctx.cancelled
    with pytest.raises(LostLeaseError):
        ctx.heartbeat()


def test_a_heartbeat_looks_at_the_lease_once_a_second_at_most(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = 1000.0
    monkeypatch.setattr("buildqueue.queue.context.time.monotonic", lambda: moment)
    ctx.heartbeat()
    taken_over(ctx.job)

    ctx.heartbeat()
    moment = 1000.9
    assert not ctx.cancelled
    moment = 1001.0
    assert ctx.cancelled
    with pytest.raises(LostLeaseError):
        ctx.heartbeat()  # gone is gone: nothing is asked any more


def test_the_lease_is_seen_to_be_lost_from_inside_a_step(ctx: Context) -> None:
    def work() -> None:
        with ctx.step("long"):
            ctx.heartbeat()
            elsewhere(verbs.cancel, ctx.job.pk, actor=ANNA)
            ctx.check_lease()

    with pytest.raises(LostLeaseError):
        work()


def test_answers_are_what_people_gave(ctx: Context) -> None:
    assert ctx.answers == {}
    JobProgress.objects.create(job=ctx.job, answers={"color": "blue"})

    assert ctx.answers == {"color": "blue"}
    assert fresh(ctx.job).status == JobStatus.IN_PROGRESS
