"""Is an effect and its checkpoint one thing, whatever happens in the middle of it?"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import DatabaseError, connection
from django.db import transaction as transactions
from django.utils import timezone

from buildqueue.exceptions import LostLeaseError, PermanentError, StepTimeLimit
from buildqueue.models import BuildJob, Checkpoint, JobEvent
from buildqueue.queue import leases, recovery, verbs
from buildqueue.queue.context import Context
from buildqueue.queue.context.steps import Step
from buildqueue.queue.outcomes import Actor
from buildqueue.states import JobStatus
from tests.host.models import Effect
from tests.support.attempts import elsewhere, taken_over
from tests.support.jobs import fresh, story
from tests.support.races import PATIENCE
from tests.support.steps import charge_card, checkpoints, effects, run_step
from tests.support.waiting import wait_until

ANNA = Actor(label="anna")
PAST = timedelta(seconds=5)

pytestmark = pytest.mark.usefixtures("committed")


# -- one thing -----------------------------------------------------------------------


def test_effect_checkpoint_and_event_are_seen_by_others_at_once_and_together(
    ctx: Context,
) -> None:
    def seen() -> tuple[int, int, list[tuple[str, str]]]:
        return effects(), len(checkpoints(ctx)), story(ctx.job)

    with ctx.step("charge") as step:
        Effect.objects.create(label="charge")
        step.result = {"amount": 40}
        before = elsewhere(seen)

    assert before == (0, 0, [("step_started", "charge")])
    assert elsewhere(seen) == (
        1,
        1,
        [("step_started", "charge"), ("step_finished", "charge")],
    )
    row = Checkpoint.objects.get()
    assert (row.step, row.result) == ("charge", {"amount": 40})
    assert (row.lease_id, row.attempt) == (ctx.lease_id, 1)


def test_an_exception_takes_everything_back_and_is_told(ctx: Context) -> None:
    def charge(step: Step) -> None:
        charge_card(step)
        ctx.checkpoint(state={"charged": True})
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run_step(ctx, "charge", charge)

    assert (effects(), checkpoints(ctx), ctx.state) == (0, {}, {})
    assert story(ctx.job) == [("step_started", "charge"), ("step_failed", "charge")]
    assert JobEvent.objects.get(kind="step_failed").detail == {"error": "ValueError"}


def test_what_a_handler_raises_is_not_hidden_by_a_session_that_is_gone(
    ctx: Context,
) -> None:
    def break_it() -> None:
        assert ctx.session is not None
        ctx.session.connection.close()
        raise PermanentError("no such customer", code="no_customer")

    with pytest.raises(PermanentError, match="no such customer"), ctx.step("charge"):
        break_it()


@pytest.mark.parametrize(
    "take",
    [
        lambda job: verbs.cancel(job.pk, actor=ANNA),
        lambda job: verbs.pause(job.pk, actor=ANNA),
        lambda job: verbs.release(job.pk, actor=ANNA, reason="slow"),
        lambda job: verbs.force_fail(job.pk, actor=ANNA, reason="enough"),
        lambda job: recovery.rescue_worker(job.worker),
        taken_over,
        lambda job: BuildJob.objects.filter(pk=job.pk).update(
            lease_until=timezone.now() - PAST
        ),
        lambda job: connection.cursor().execute(
            "DELETE FROM buildqueue_buildjob WHERE id = %s", [job.pk]
        ),
    ],
    ids=["cancel", "pause", "release", "fail", "rescue", "takeover", "over", "deleted"],
)
def test_a_step_whose_lease_is_taken_meanwhile_has_not_happened(
    ctx: Context, take: Callable[[BuildJob], object]
) -> None:
    def charge(step: Step) -> None:
        charge_card(step)
        elsewhere(take, ctx.job)

    with pytest.raises(LostLeaseError):
        run_step(ctx, "charge", charge)

    assert (effects(), checkpoints(ctx)) == (0, {})
    kinds = [kind for kind, _ in story(ctx.job)]
    assert "step_finished" not in kinds
    assert "step_failed" not in kinds


def test_a_step_does_not_begin_without_the_lease(ctx: Context) -> None:
    taken_over(ctx.job)

    with pytest.raises(LostLeaseError), ctx.step("charge"):
        pytest.fail("the body ran")

    assert story(ctx.job) == []


def test_the_fence_is_the_last_word_also_for_what_a_handler_commits_itself(
    ctx: Context,
) -> None:
    def commit_late() -> None:
        with transactions.atomic():
            Effect.objects.create(label="mine")
            ctx.checkpoint(state={"mine": True})
            elsewhere(verbs.cancel, ctx.job.pk, actor=ANNA)

    with pytest.raises(DatabaseError) as refused:
        commit_late()

    assert refused.value.__cause__.sqlstate == "BQ001"  # type: ignore[union-attr]
    assert (effects(), ctx.state) == (0, {})


# -- nothing waits for an open step --------------------------------------------------


def _fill(ctx: Context) -> None:
    """Do in a step all that writes a row which carries the lease."""
    Effect.objects.create(label="open")
    ctx.checkpoint(state={"a": 1}, evidence=["seen"])
    ctx.progress(1, 2, "half")
    ctx.propose("mail", {"to": "anna"})
    ctx.spawn("child", {"kind": "probe"})
    ctx.note("still here")


def test_an_open_step_delays_no_renewal(ctx: Context) -> None:
    with ctx.step("long"):
        _fill(ctx)
        renewed = elsewhere(leases.renew, [ctx.lease_id], timedelta(hours=1))

    assert renewed == {ctx.lease_id}
    assert list(checkpoints(ctx)) == ["child:child", "long"]
    assert fresh(ctx.job).lease_until > ctx.job.lease_until  # type: ignore[operator]


def test_an_open_step_delays_no_cancel(ctx: Context) -> None:
    def work(step: Step) -> None:
        _fill(ctx)
        elsewhere(verbs.cancel, ctx.job.pk, actor=ANNA)
        assert fresh(ctx.job).status == JobStatus.CANCELLED

    with pytest.raises(LostLeaseError):
        run_step(ctx, "long", work)

    assert (effects(), checkpoints(ctx), ctx.state) == (0, {}, {})
    assert not BuildJob.objects.filter(parent=ctx.job).exists()


def test_a_write_inside_a_step_tells_at_once_that_the_lease_is_gone(
    ctx: Context,
) -> None:
    def lose_it() -> None:
        elsewhere(verbs.cancel, ctx.job.pk, actor=ANNA)
        with pytest.raises(LostLeaseError):
            ctx.checkpoint(state={"late": True})

    with pytest.raises(LostLeaseError), ctx.step("long"):
        lose_it()

    assert ctx.state == {}


# -- a step that takes too long ------------------------------------------------------


@pytest.mark.parametrize("transaction", [True, False])
def test_a_step_that_took_too_long_is_refused_at_its_end_where_no_alarm_rings(
    ctx: Context, transaction: bool
) -> None:
    assert ctx.alarm is None

    def load() -> None:
        with ctx.step("load", transaction=transaction, seconds=0.05):
            Effect.objects.create(label="load")
            ends = time.monotonic() + 0.05
            wait_until(lambda: time.monotonic() > ends, message="the time")

    with pytest.raises(StepTimeLimit, match="load") as late:
        load()

    assert late.value.code == "step_timed_out"
    assert effects() == (0 if transaction else 1)  # no transaction held that
    assert checkpoints(ctx) == {}
    assert story(ctx.job)[-1] == ("step_failed", "load")
    with ctx.step("load", seconds=PATIENCE) as step:
        assert not step.done
        Effect.objects.create(label="in time")
    assert (effects("in time"), list(checkpoints(ctx))) == (1, ["load"])


def test_a_step_that_fails_late_fails_by_what_it_raised(ctx: Context) -> None:
    def load() -> None:
        with ctx.step("load", seconds=1e-9):
            raise PermanentError("no such file", code="no_file")

    with pytest.raises(PermanentError, match="no such file"):
        load()
