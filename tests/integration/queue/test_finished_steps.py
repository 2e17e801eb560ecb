"""Does the body of a finished step change nothing, whether it asks or not?"""

from __future__ import annotations

import pytest

from buildqueue.models import BuildJob, JobEvent
from buildqueue.queue import enqueueing
from buildqueue.queue.context import Context
from tests.host.jobs import Probe
from tests.host.models import Effect
from tests.support.attempts import next_attempt, run_of

pytestmark = pytest.mark.usefixtures("committed")


def _charge(ctx: Context) -> object:
    """Charge as one does who has forgotten that it may be done already."""
    with ctx.step("charge") as step:
        Effect.objects.create(label="charged", attempt=ctx.attempt)
        enqueueing.enqueue(Probe(label="told"))
        step.result = {"attempt": ctx.attempt}
    return step.result


def test_a_body_that_does_not_ask_writes_nothing_a_second_time(ctx: Context) -> None:
    assert _charge(ctx) == {"attempt": 1}

    with run_of(next_attempt(ctx)) as second:
        assert _charge(second) == {"attempt": 1}  # what was stored, not what it made
        assert _charge(second) == {"attempt": 1}

    assert Effect.objects.get().attempt == 1
    assert BuildJob.objects.filter(payload__label="told").count() == 1
    skipped = JobEvent.objects.filter(job_id=ctx.job.pk, kind="step_skipped")
    assert skipped.count() == 2


def test_what_comes_behind_it_is_stored(ctx: Context) -> None:
    _charge(ctx)

    with run_of(next_attempt(ctx)) as second:
        _charge(second)
        Effect.objects.create(label="afterwards")
        with second.step("next"):
            Effect.objects.create(label="next")

    labels = sorted(Effect.objects.values_list("label", flat=True))
    assert labels == ["afterwards", "charged", "next"]


def test_an_exception_in_it_is_the_handlers(ctx: Context) -> None:
    _charge(ctx)

    with run_of(next_attempt(ctx)) as second:
        with pytest.raises(ZeroDivisionError), second.step("charge"):
            raise ZeroDivisionError
        Effect.objects.create(label="afterwards")

    assert Effect.objects.filter(label="afterwards").exists()


def test_long_work_outside_of_a_transaction_has_to_ask(ctx: Context) -> None:
    def upload(run: Context) -> bool:
        with run.step("upload", transaction=False) as step:
            Effect.objects.create(label="uploaded")
        return step.done

    assert not upload(ctx)
    with run_of(next_attempt(ctx)) as second:
        assert upload(second)

    assert Effect.objects.count() == 2
