"""Is progress seen at once, and refused when it is late or makes no sense?"""

from __future__ import annotations

import pytest

from buildqueue.exceptions import LostLeaseError, NotStorable
from buildqueue.models import JobProgress
from buildqueue.queue import verbs
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import Actor
from tests.support.attempts import elsewhere
from tests.support.jobs import progress_row

ANNA = Actor(label="anna")

pytestmark = pytest.mark.usefixtures("committed")


def test_progress_is_seen_by_others_while_a_step_is_open(ctx: Context) -> None:
    def seen() -> tuple[int | None, int | None, str]:
        row = JobProgress.objects.get(pk=ctx.job.pk)
        return row.done, row.total, row.message

    with ctx.step("copy"):
        ctx.progress(3, 10, "three")
        during = elsewhere(seen)
        ctx.progress(4)

    assert during == (3, 10, "three")
    assert seen() == (4, None, "")


def test_progress_waits_for_no_checkpoint_of_the_same_step(ctx: Context) -> None:
    ctx.progress(1, 10)

    with ctx.step("copy"):
        ctx.checkpoint(state={"copied": 5})
        ctx.progress(5, 10)  # left out: the row is this step's until it commits
        ctx.checkpoint(state={"copied": 6})
    ctx.progress(6, 10)

    row = progress_row(ctx.job)
    assert (row["done"], row["state"]) == (6, {"copied": 6})


def test_progress_tells_of_a_lost_lease_also_when_it_is_left_out(ctx: Context) -> None:
    def work() -> None:
        with ctx.step("copy"):
            ctx.checkpoint(state={"copied": 5})
            elsewhere(verbs.cancel, ctx.job.pk, actor=ANNA)
            with pytest.raises(LostLeaseError):
                ctx.progress(5, 10)

    with pytest.raises(LostLeaseError):
        work()


def test_progress_that_makes_no_sense_is_refused_and_the_run_goes_on(
    ctx: Context,
) -> None:
    ctx.progress(1, 2)

    with pytest.raises(NotStorable, match="from 0 on"):
        ctx.progress(-1)

    ctx.progress(2, 2, "a\x00" + "b" * 1000)
    row = progress_row(ctx.job)
    assert (row["done"], row["message"]) == (2, "a␀" + "b" * 498)
