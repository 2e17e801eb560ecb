"""Is a whole life told event by event, and the same however often the processes die?"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.utils import timezone

from buildqueue.exceptions import LostLeaseError, PermanentError
from buildqueue.models import BuildJob, Checkpoint, JobAction, JobRun
from buildqueue.queue import (
    actions,
    claiming,
    enqueueing,
    leases,
    recovery,
    verbs,
)
from buildqueue.queue.context import Context
from buildqueue.queue.failures import MAX_MESSAGE, MAX_TRACEBACK
from buildqueue.queue.outcomes import (
    Actor,
    Cause,
    Done,
    Fail,
    Outcome,
    Retry,
    Snooze,
    WaitForApproval,
    WaitForChildren,
    WaitForInput,
)
from buildqueue.queue.questions import Field
from buildqueue.states import FINAL, JobStatus, RunOutcome
from buildqueue.worker import runner
from tests.factories import make_job
from tests.host.jobs import Probe
from tests.host.models import Effect
from tests.support.decisions import make_action
from tests.support.jobs import fresh, kinds, story
from tests.support.killing import killed_before
from tests.support.turns import claim, holder, report, turn, turns

from .conftest import AddKind

pytestmark = pytest.mark.usefixtures("committed")

ANNA = Actor(label="anna", id="7")
DIED = Cause(
    outcome=RunOutcome.CRASHED,
    code="killed_by_signal",
    message="killed by SIGKILL",
    exit_signal=9,
)
BOTH_STEPS = [
    ("step_started", "first"),
    ("step_finished", "first"),
    ("step_started", "second"),
    ("step_finished", "second"),
]


def _lease_is_over(job: BuildJob) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE buildqueue_buildjob SET lease_until = now() - interval '1 second' "
            "WHERE id = %s",
            [job.pk],
        )


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
    _lease_is_over(job)  # and its process is gone
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
            _lease_is_over(taken)
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


# -- runs ----------------------------------------------------------------------------


def _told(outcome: Outcome) -> Callable[[BuildJob], object]:
    return lambda job: report(job, outcome)


def _lost(job: BuildJob) -> None:
    _lease_is_over(job)
    recovery.rescue_expired()


def _killed(job: BuildJob) -> None:
    assert job.slot is not None
    recovery.rescue_slot(job.slot, DIED, started=job.lease_id)


def _aborted(job: BuildJob) -> None:
    verbs.cancel(job.pk, actor=ANNA)
    assert job.slot is not None
    recovery.rescue_slot(job.slot, DIED, started=job.lease_id)


@pytest.mark.parametrize(
    ("end", "outcome", "status"),
    [
        (_told(Done()), "succeeded", "done"),
        (_told(Fail(reason="no")), "failed", "failed"),
        (_told(Retry(reason="no")), "failed", "scheduled"),
        (_told(Snooze(delay_seconds=1)), "waiting", "scheduled"),
        (_lost, "lost", "pending"),
        (_killed, "crashed", "pending"),
        (_aborted, "interrupted", "cancelled"),
        (runner.hand_back, "released", "pending"),
    ],
)
def test_each_attempt_is_one_row_that_keeps_when_and_how_it_ended(
    end: Callable[[BuildJob], object], outcome: str, status: str
) -> None:
    make_job()
    job = claim()
    assert job is not None

    end(job)

    run = JobRun.objects.get()
    assert (run.pk, run.attempt, run.outcome) == (job.lease_id, 1, outcome)
    assert run.ended_at is not None
    assert run.started_at <= run.ended_at
    assert fresh(job).status == status


# -- who is due ----------------------------------------------------------------------


def test_exactly_what_is_due_is_taken_and_nothing_else() -> None:
    now = timezone.now()
    past, future = now - timedelta(hours=1), now + timedelta(hours=1)
    made: dict[tuple[str, bool, bool], BuildJob] = {}
    for status in JobStatus:
        for due in (True, False):
            for alive in (True, False):
                values: dict[str, Any] = {"due_at": past if due else future}
                if status == JobStatus.IN_PROGRESS:
                    values["lease_until"] = future if alive else past
                job = make_job(status, **values)
                if status == JobStatus.WAITING_APPROVAL:
                    make_action(job, "approved" if due else "awaiting_review")
                if status == JobStatus.WAITING_CHILDREN:
                    make_job("done" if due else "paused", parent=job)
                made[status, due, alive] = job

    recovery.rescue_expired()
    recovery.repair_pairs()
    taken = {job.pk for job in claiming.claim(claiming.Scope(), holder(), limit=100)}

    expected = {
        job.pk
        for (status, due, alive), job in made.items()
        if (
            status in {"pending", "scheduled", "waiting_approval", "waiting_children"}
            and due
        )
        or (status == "in_progress" and not alive and due)
    }
    assert taken == expected


@pytest.mark.parametrize("way", ["enqueue", "bulk", "sql", "spawn", "retry"])
def test_a_new_job_has_no_lease_and_is_claimed_next(way: str) -> None:
    payload = Probe().model_dump(mode="json")
    match way:
        case "enqueue":
            enqueueing.enqueue(Probe())
        case "bulk":
            BuildJob.objects.bulk_create([BuildJob(payload=payload)])
        case "sql":
            with connection.cursor() as cursor:
                cursor.execute(
                    "INSERT INTO buildqueue_buildjob (payload) VALUES (%s::jsonb)",
                    ['{"kind": "probe"}'],
                )
        case "spawn":
            parent = make_job(JobStatus.IN_PROGRESS)
            assert parent.lease_id is not None
            Context(job=parent, lease_id=parent.lease_id).spawn("a", Probe())
        case "retry":
            verbs.retry(make_job(JobStatus.FAILED).pk, actor=ANNA)
    job = BuildJob.objects.get(status=JobStatus.PENDING)

    assert (job.lease_id, job.lease_until, job.picked_at) == (None, None, None)
    taken = claim()
    assert taken is not None
    assert taken.pk == job.pk


def test_a_thousand_claims_make_a_thousand_leases_of_the_databases_length() -> None:
    payload = Probe().model_dump(mode="json")
    BuildJob.objects.bulk_create(BuildJob(payload=payload) for _ in range(1000))

    taken = claiming.claim(claiming.Scope(), holder(lease=60), limit=1000)

    assert len({job.lease_id for job in taken}) == 1000
    second = timedelta(seconds=1)
    for job in taken:
        assert job.lease_until is not None
        assert job.picked_at is not None
        assert abs(job.lease_until - job.picked_at - 60 * second) < second


# -- poison --------------------------------------------------------------------------


def test_a_job_that_kills_its_process_ends_after_its_allowance() -> None:
    job = make_job(max_attempts=3)

    for _ in range(3):
        taken = claim()
        assert taken is not None
        _killed(taken)

    ended = fresh(job)
    assert (ended.status, ended.error_code) == ("failed", "max_attempts_exhausted")
    assert "SIGKILL" in (ended.error_msg or "")
    assert claim() is None
    assert kinds(job) == ["claim", "rescue"] * 3


def test_a_job_that_is_not_to_run_twice_fails_by_its_first_death(
    add_kind: AddKind,
) -> None:
    kind = add_kind(again_after_death=False)
    job = make_job(payload={"kind": kind}, max_attempts=9)
    taken = claim()
    assert taken is not None

    _killed(taken)

    ended = fresh(job)
    assert (ended.status, ended.error_code) == ("failed", "killed_by_signal")
    assert "a person must decide" in (ended.error_msg or "")
    again = verbs.retry(job.pk, actor=ANNA)
    assert again.status == JobStatus.PENDING


def test_a_job_that_is_not_to_run_twice_is_handed_back_by_a_worker_that_stops(
    add_kind: AddKind,
) -> None:
    job = make_job(payload={"kind": add_kind(again_after_death=False)})
    taken = claim()
    assert taken is not None

    runner.hand_back(taken)

    assert fresh(job).status == JobStatus.PENDING


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


# -- approval ------------------------------------------------------------------------


def _mailing(ctx: Context, payload: object) -> Outcome:
    action = ctx.propose("mail", {"to": "anna"}, title="Mail to Anna")
    if action.status == "awaiting_review":
        return WaitForApproval()
    return Done(result=ctx.perform("mail", _send))


def _send(action: JobAction) -> dict[str, Any]:
    Effect.objects.create(label="sent")
    return {"id": "m-1"}


def _proposed(add_kind: AddKind) -> tuple[BuildJob, JobAction]:
    job = make_job(payload={"kind": add_kind(function=_mailing)})
    turn()
    assert fresh(job).status == JobStatus.WAITING_APPROVAL
    return job, JobAction.objects.get(job=job)


def test_what_waits_for_a_decision_does_not_run_and_ends_with_its_receipt(
    add_kind: AddKind,
) -> None:
    job, action = _proposed(add_kind)
    assert turn() is None
    assert not Effect.objects.exists()

    actions.approve(action.pk, content_hash=action.content_hash, actor=ANNA)
    turns()

    assert (fresh(job).status, fresh(job).result) == ("done", {"id": "m-1"})
    assert Effect.objects.count() == 1


def test_what_is_denied_or_expired_fails_and_says_so(add_kind: AddKind) -> None:
    denied, action = _proposed(add_kind)
    actions.deny(
        action.pk, content_hash=action.content_hash, actor=ANNA, reason="too dear"
    )
    turns()
    late, other = _proposed(add_kind)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE buildqueue_jobaction SET expires_at = now(), lease_id = NULL "
            "WHERE id = %s",
            [other.pk],
        )
    recovery.repair_pairs()
    turns()

    assert (fresh(denied).status, fresh(denied).error_code) == (
        "failed",
        "action_denied",
    )
    assert "too dear" in (fresh(denied).error_msg or "")
    assert (fresh(late).status, fresh(late).error_code) == ("failed", "action_expired")
    assert not Effect.objects.exists()


# -- whose clock ---------------------------------------------------------------------


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_worker_whose_clock_is_off_by_an_hour_behaves_the_same(
    monkeypatch: pytest.MonkeyPatch, add_kind: AddKind, hours: int
) -> None:
    wrong = timezone.now() + timedelta(hours=hours)
    wrong_seconds = time.time() + hours * 3600
    monkeypatch.setattr(timezone, "now", lambda: wrong)
    monkeypatch.setattr("buildqueue.clock.now", lambda: wrong)
    monkeypatch.setattr(time, "time", lambda: wrong_seconds)
    snoozed, retried = enqueueing.enqueue(Probe()), enqueueing.enqueue(Probe())
    for job, outcome in (
        (snoozed, Snooze(delay_seconds=600)),
        (retried, Retry(reason="later", delay_seconds=600)),
    ):
        taken = claim()
        assert taken is not None
        assert taken.pk == job.pk
        assert recovery.rescue_expired() == 0
        assert taken.lease_id is not None
        assert leases.renew([taken.lease_id], timedelta(minutes=1)) == {taken.lease_id}
        report(taken, outcome)
    mail, _ = _proposed(add_kind)

    assert claim() is None
    assert recovery.repair_pairs() == 0
    assert fresh(mail).status == JobStatus.WAITING_APPROVAL
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM buildqueue_buildjob WHERE status = 'scheduled' AND "
            "due_at BETWEEN now() + interval '5 min' AND now() + interval '15 min'"
        )
        assert cursor.fetchone() == (2,)
        cursor.execute(
            "SELECT count(*) FROM buildqueue_jobaction WHERE "
            "expires_at BETWEEN now() + interval '25 min' AND now() + interval '35 min'"
        )
        assert cursor.fetchone() == (1,)
    verbs.change_due(snoozed.pk, due_at=_by_the_database(-1), actor=ANNA)
    verbs.change_due(retried.pk, due_at=_by_the_database(60), actor=ANNA)
    assert (fresh(snoozed).status, fresh(retried).status) == ("pending", "scheduled")


def _by_the_database(seconds: int) -> Any:
    with connection.cursor() as cursor:
        cursor.execute("SELECT now() + make_interval(secs => %s)", [seconds])
        return cursor.fetchone()[0]


# -- what nothing may do -------------------------------------------------------------


def test_whoever_lost_its_lease_ends_nothing() -> None:
    make_job()
    first = claim()
    assert first is not None
    _lost(first)
    second = claim()
    assert second is not None
    before = BuildJob.objects.values().get()

    for outcome in (Done(), Fail(reason="x"), Snooze(delay_seconds=0)):
        with pytest.raises(LostLeaseError):
            report(first, outcome)

    assert BuildJob.objects.values().get() == before
    assert before["lease_id"] == second.lease_id


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
