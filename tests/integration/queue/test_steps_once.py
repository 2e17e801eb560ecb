"""Is a step done once in all attempts, and what do later ones find of it?"""

from __future__ import annotations

import math
from typing import Any

import pytest
from django.db import connection
from django.db import transaction as transactions
from django.utils import timezone

from buildqueue.exceptions import LostLeaseError, NotStorable, PermanentError
from buildqueue.models import Checkpoint, JobEvent
from buildqueue.queue import verbs
from buildqueue.queue.context import Context
from buildqueue.queue.context.steps import Step
from buildqueue.queue.outcomes import Actor
from tests.host.models import Effect
from tests.support.attempts import next_attempt, run_of
from tests.support.jobs import story
from tests.support.steps import charge_card, checkpoints, effects, run_step

ANNA = Actor(label="anna")

pytestmark = pytest.mark.usefixtures("committed")


# -- once ----------------------------------------------------------------------------


def test_a_later_attempt_finds_the_step_done_with_its_result(ctx: Context) -> None:
    with ctx.step("charge") as step:
        assert not step.done
        Effect.objects.create(label="charge")
        step.result = {"amount": 40}

    with run_of(next_attempt(ctx)) as second, second.step("charge") as step:
        if not step.done:
            pytest.fail("it would be charged twice")

    assert step.result == {"amount": 40}
    assert effects() == 1
    skipped = JobEvent.objects.get(kind="step_skipped")
    assert (skipped.title, skipped.attempt) == ("charge", 2)
    assert skipped.detail == {"attempt": 1}
    assert Checkpoint.objects.get().attempt == 1


def test_once_calls_its_function_in_one_attempt_only(ctx: Context) -> None:
    def charge(amount: int) -> dict[str, int]:
        Effect.objects.create(label="charge")
        return {"amount": amount}

    assert ctx.once("charge", charge, 40) == {"amount": 40}
    assert ctx.once("charge", charge, 50) == {"amount": 40}
    with run_of(next_attempt(ctx)) as second:
        assert second.once("charge", charge, 60) == {"amount": 40}

    assert effects() == 1


def test_a_step_of_every_attempt_runs_again_and_keeps_the_last_result(
    ctx: Context,
) -> None:
    with ctx.step("look", again=True) as step:
        step.result = 1
    with run_of(next_attempt(ctx)) as second:
        with second.step("look", again=True) as step:
            assert not step.done
            step.result = 2
        assert checkpoints(second) == {"look": 2}
        assert Checkpoint.objects.get().lease_id == second.lease_id


def test_a_step_without_a_transaction_keeps_what_it_did_and_may_hold_others(
    ctx: Context,
) -> None:
    with ctx.step("download", transaction=False) as step:
        assert not connection.in_atomic_block
        Effect.objects.create(label="file")
        with ctx.step("note it"):
            Effect.objects.create(label="row")
        step.result = "file"

    assert checkpoints(ctx) == {"download": "file", "note it": None}

    def upload(step: Step) -> None:
        Effect.objects.create(label="outside")
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        run_step(ctx, "upload", upload, transaction=False)

    assert effects("outside") == 1  # no transaction held it
    assert "upload" not in checkpoints(ctx)


def test_a_step_without_a_transaction_leaves_no_checkpoint_without_the_lease(
    ctx: Context,
) -> None:
    with pytest.raises(LostLeaseError), ctx.step("download", transaction=False):
        verbs.cancel(ctx.job.pk, actor=ANNA)

    assert checkpoints(ctx) == {}


@pytest.mark.parametrize("transaction", [True, False])
def test_a_step_inside_a_transaction_is_refused(
    ctx: Context, transaction: bool
) -> None:
    def nest() -> None:
        with ctx.step("inner", transaction=transaction):
            pytest.fail("the inner body ran")

    with pytest.raises(PermanentError) as refused, ctx.step("outer"):
        nest()
    assert refused.value.code == "step_in_transaction"
    with pytest.raises(PermanentError), transactions.atomic():
        nest()
    assert checkpoints(ctx) == {}


@pytest.mark.parametrize(
    "name", ["", "a" * 201, "nul \x00", "half \ud800", "child:mine", 5, None, ["a"]]
)
def test_a_name_that_cannot_be_kept_is_refused(ctx: Context, name: Any) -> None:
    with pytest.raises(NotStorable, match="a step's name must"), ctx.step(name):
        pytest.fail("the body ran")

    assert story(ctx.job) == []


def test_names_may_be_as_long_as_they_may_and_in_any_script(ctx: Context) -> None:
    names = ["a" * 200, "Größe 大小 🚀"]
    for name in names:
        with ctx.step(name):
            pass

    assert sorted(checkpoints(ctx)) == sorted(names)


# -- results -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "result", [object(), {1, 2}, math.nan, math.inf, timezone.now(), {"a": b"x"}]
)
def test_a_result_that_is_not_json_takes_the_effect_back(
    ctx: Context, result: object
) -> None:
    def charge(step: Step) -> None:
        charge_card(step)
        step.result = result

    with pytest.raises((TypeError, ValueError)):
        run_step(ctx, "charge", charge)

    assert (effects(), checkpoints(ctx)) == (0, {})
    assert story(ctx.job)[-1] == ("step_failed", "charge")


def test_nul_and_half_surrogates_in_a_result_are_stored_as_well_as_can_be(
    ctx: Context,
) -> None:
    with ctx.step("read") as step:
        step.result = {"nul \x00": ["\ud800", "a\x00b", "😀"]}

    assert checkpoints(ctx) == {"read": {"nul ␀": ["?", "a␀b", "😀"]}}


def test_the_attempt_that_does_a_step_sees_the_result_that_later_ones_see(
    ctx: Context,
) -> None:
    given = {1: ("a", "nul \x00"), "none": None}

    first = ctx.once("read", lambda: given)
    with run_of(next_attempt(ctx)) as second:
        later = second.once("read", lambda: pytest.fail("ran twice"))

    assert first == later == {"1": ["a", "nul ␀"], "none": None}


def test_a_step_of_every_attempt_may_be_run_again_in_one(ctx: Context) -> None:
    for number in (1, 2):
        with ctx.step("look", again=True) as step:
            Effect.objects.create(label="look")
            step.result = number

    assert (effects(), checkpoints(ctx)) == (2, {"look": 2})
