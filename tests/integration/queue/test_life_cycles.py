"""Is a whole life told event by event, and the same however often the processes die?"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models import F

from buildqueue.exceptions import PermanentError
from buildqueue.models import BuildJob, Checkpoint, JobRun
from buildqueue.queue import enqueueing, leases, recovery, verbs
from buildqueue.queue.context import Context
from buildqueue.queue.failures import MAX_MESSAGE, MAX_TRACEBACK
from buildqueue.queue.outcomes import (
    Actor,
    Done,
    Fail,
    Outcome,
    WaitForChildren,
    WaitForInput,
)
from buildqueue.queue.questions import Field
from buildqueue.states import FINAL, JobStatus
from buildqueue.worker import runner
from tests.factories import make_job
from tests.host.jobs import Probe
from tests.host.models import Effect
from tests.support.attempts import let_lease_end
from tests.support.jobs import fresh, kinds, story
from tests.support.killing import killed_before
from tests.support.turns import claim, turn, turns

from .conftest import AddKind

pytestmark = pytest.mark.usefixtures("committed")

ANNA = Actor(label="anna", id="7")
BOTH_STEPS = [
    ("step_started", "first"),
    ("step_finished", "first"),
    ("step_started", "second"),
    ("step_finished", "second"),
]


def _two_steps(ctx: Context, payload: object) -> Outcome:
    for name in ("first", "second"):
        with ctx.step(name) as step:
            if not step.done:
                Effect.objects.create(label=name, attempt=ctx.attempt)
                step.result = ctx.attempt
    return Done(result={"attempt": ctx.attempt})


def _effects() -> list[tuple[str, int]]:
    return list(Effect.objects.order_by("pk").values_list("label", "attempt"))


# -- the four lives ------------------------------------------------------------------


def test_a_life_without_trouble(add_kind: AddKind) -> None:
    def handle(ctx: Context, payload: object) -> Outcome:
        assert leases.renew([ctx.lease_id], timedelta(hours=1)) == {ctx.lease_id}
        ctx.checkpoint(state={"at": "half"})
        return _two_steps(ctx, payload)

    job = enqueueing.enqueue({"kind": add_kind(function=handle)})
    turns()

    assert story(job) == [
        ("enqueue", "pending"),
        ("claim", "in_progress"),
        ("checkpoint", "state"),
        *BOTH_STEPS,
        ("finish", "done"),
    ]
    ended = fresh(job)
    assert (ended.status, ended.result) == ("done", {"attempt": 1})
    assert (ended.lease_id, ended.lease_until, ended.error_code) == (None, None, None)


def test_a_life_with_a_worker_that_stops(add_kind: AddKind) -> None:
    job = enqueueing.enqueue({"kind": add_kind(function=_two_steps)})
    taken = claim()
    assert taken is not None
    back = runner.hand_back(taken)
    after = fresh(job)
    turns()

    assert back is not None
    assert (after.status, after.lease_id, after.lease_until) == ("pending", None, None)
    assert (after.error_code, after.error_msg) == (None, None)
    assert story(job) == [
        ("enqueue", "pending"),
        ("claim", "in_progress"),
        ("hand_back", "pending"),
        ("claim", "in_progress"),
        *BOTH_STEPS,
        ("finish", "done"),
    ]
    ended = fresh(job)
    assert (ended.failures, ended.crashes, ended.attempt) == (0, 0, 2)
    outcomes = JobRun.objects.order_by("attempt").values_list("outcome", flat=True)
    assert list(outcomes) == ["released", "succeeded"]


@pytest.mark.parametrize(
    ("allowance", "event", "status", "code"),
    [
        (1, "fail", "failed", "max_attempts_exhausted"),
        (2, "retry_later", "scheduled", "exception"),
    ],
)
def test_a_life_with_an_error(
    add_kind: AddKind, allowance: int, event: str, status: str, code: str
) -> None:
    def handle(ctx: Context, payload: object) -> None:
        raise ValueError("x" * 100_000)

    kind = add_kind(function=handle)
    job = enqueueing.enqueue({"kind": kind}, max_attempts=allowance)
    turn()

    assert story(job) == [
        ("enqueue", "pending"),
        ("claim", "in_progress"),
        (event, status),
    ]
    after = fresh(job)
    assert (after.status, after.error_code, after.failures) == (status, code, 1)
    assert (after.lease_id, after.lease_until) == (None, None)
    run = JobRun.objects.get()
    assert (run.outcome, run.error_code, run.error_class) == (
        "failed",
        "exception",
        "unknown",
    )
    assert len(run.error_msg or "") <= MAX_MESSAGE
    assert 0 < len(run.traceback or "") <= MAX_TRACEBACK + 1


def test_an_error_that_is_permanent_fails_at_once(add_kind: AddKind) -> None:
    def handle(ctx: Context, payload: object) -> None:
        raise PermanentError("never", code="gone")

    job = enqueueing.enqueue({"kind": add_kind(function=handle)}, max_attempts=9)
    turns()

    assert kinds(job) == ["enqueue", "claim", "fail"]
    assert (fresh(job).status, fresh(job).error_code) == ("failed", "gone")


def test_a_life_with_a_crash_goes_on_from_the_latest_checkpoint(
    add_kind: AddKind,
) -> None:
    job = enqueueing.enqueue({"kind": add_kind(function=_two_steps)})
    taken = claim()
    assert taken is not None
    assert taken.lease_id is not None
    ctx = Context(job=taken, lease_id=taken.lease_id)
    with ctx.step("first"):
        Effect.objects.create(label="first", attempt=1)
    let_lease_end(job)  # and its process is gone
    assert recovery.rescue_expired() == 1
    turns()

    assert story(job) == [
        ("enqueue", "pending"),
        ("claim", "in_progress"),
        ("step_started", "first"),
        ("step_finished", "first"),
        ("rescue", "pending"),
        ("claim", "in_progress"),
        ("step_skipped", "first"),
        ("step_started", "second"),
        ("step_finished", "second"),
        ("finish", "done"),
    ]
    assert _effects() == [("first", 1), ("second", 2)]
    assert fresh(job).crashes == 1


# -- dying again and again -----------------------------------------------------------


def test_processes_that_die_between_all_steps_come_to_the_same_end(
    add_kind: AddKind,
) -> None:
    """Each attempt gets one statement further; all that lasts is in the database."""
    child_kind = add_kind()

    def handle(ctx: Context, payload: object) -> Outcome:
        _two_steps(ctx, payload)
        ctx.spawn("child", {"kind": child_kind})
        if any(not each.is_final for each in ctx.children()):
            return WaitForChildren()
        if "go" not in ctx.answers:
            asked = {"go": Field(type="boolean")}
            return WaitForInput(question="On?", fields=asked)
        return Done(result=ctx.answers)

    kind = add_kind(function=handle)
    job = enqueueing.enqueue({"kind": kind}, max_attempts=1_000)
    deaths = 0
    while not fresh(job).is_final:
        if fresh(job).status == JobStatus.WAITING_INPUT:
            verbs.answer(job.pk, values={"go": True}, actor=ANNA)
        taken = claim()
        assert taken is not None
        # Ever later, so that it dies in all places and gets on.
        if killed_before(3 + deaths, lambda taken=taken: runner.run(taken)):
            deaths += 1
            let_lease_end(taken)
            recovery.rescue_expired()
        recovery.repair_pairs()

    ended = fresh(job)
    assert (ended.status, ended.result) == ("done", {"go": True})
    assert sorted(label for label, _ in _effects()) == ["first", "second"]
    assert BuildJob.objects.filter(parent=job).count() == 1
    assert Checkpoint.objects.count() == 3
    assert deaths > 10
    told = kinds(job)
    assert told.count("finish") == told.count("answered") == 1


# -- again, and in order -------------------------------------------------------------


def test_a_retry_keeps_attempts_and_finished_steps(add_kind: AddKind) -> None:
    def handle(ctx: Context, payload: object) -> Outcome:
        with ctx.step("first") as step:
            if not step.done:
                Effect.objects.create(label="first", attempt=ctx.attempt)
        return Done() if ctx.attempt > 1 else Fail(reason="no")

    job = make_job(payload={"kind": add_kind(function=handle)})
    turn()
    verbs.retry(job.pk, actor=ANNA)
    turn()

    assert (fresh(job).status, fresh(job).attempt) == ("done", 2)
    assert _effects() == [("first", 1)]
    assert JobRun.objects.count() == 2


def test_the_moments_of_a_life_are_in_order() -> None:
    job = enqueueing.enqueue(Probe())
    turns()

    in_order = BuildJob.objects.filter(
        created_at__lte=F("first_started_at"),
        first_started_at__lte=F("picked_at"),
        picked_at__lte=F("completed_at"),
    )
    assert in_order.get().pk == job.pk
    assert fresh(job).status in FINAL
