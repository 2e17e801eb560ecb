"""Does a job that waits stay until what it waits for has come, and no longer?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from django.utils import timezone

from buildqueue.exceptions import InvalidTransition, LostLeaseError
from buildqueue.models import BuildJob, JobProgress, JobRun
from buildqueue.queue import actions, recovery, transitions, verbs
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import (
    Actor,
    Done,
    Fail,
    WaitForApproval,
    WaitForChildren,
    WaitForInput,
)
from buildqueue.queue.questions import Field
from buildqueue.states import FINAL, OPEN, ActionStatus, JobStatus, RunOutcome
from tests.factories import make_job
from tests.host.models import Effect
from tests.support.decisions import make_action
from tests.support.jobs import fresh, kinds
from tests.support.scratch import url_of
from tests.support.turns import claim, report, turn

from .conftest import AddKind

pytestmark = pytest.mark.usefixtures("committed")

ANNA = Actor(label="anna", id="7")
QUESTION = WaitForInput(question="How many?", fields={"n": Field(type="integer")})
TICKS = 100


def _running(**values: Any) -> BuildJob:
    return make_job(JobStatus.IN_PROGRESS, **values)


def _waits_for(job: BuildJob) -> dict[str, Any] | None:
    row = JobProgress.objects.filter(pk=job.pk).first()
    return row.waits_for if row else None


def _for_input() -> BuildJob:
    return report(_running(), QUESTION)


def _for_approval() -> BuildJob:
    job = _running()
    make_action(job)
    return report(job, WaitForApproval())


def _for_children() -> BuildJob:
    job = _running()
    # One that nobody claims meanwhile.
    make_job(parent=job, held=True)
    return report(job, WaitForChildren())


def _ticks_that_take_nothing() -> None:
    """Let a hundred claims find nothing, and the duties go by now and then."""
    for tick in range(TICKS):
        assert claim() is None
        if tick % 10 == 0:
            transitions.promote_due()
            recovery.rescue_expired()
            recovery.repair_pairs()


def _end_run(job: BuildJob) -> None:
    """Have the process of a revoked run be known dead."""
    recovery.end_revoked_runs(JobRun.objects.filter(job_id=job.pk), recovery.REVOKED)


WAITERS: dict[str, tuple[Callable[[], BuildJob], str]] = {
    JobStatus.WAITING_INPUT: (_for_input, "input"),
    JobStatus.WAITING_APPROVAL: (_for_approval, "approval"),
    JobStatus.WAITING_CHILDREN: (_for_children, "children"),
}


@pytest.mark.parametrize("status", sorted(WAITERS))
def test_a_waiting_job_frees_its_slot_counts_nothing_and_says_what_for(
    status: str,
) -> None:
    make, what = WAITERS[status]

    job = make()

    assert job.status == status
    assert (job.lease_id, job.slot, job.worker) == (None, None, None)
    assert (job.failures, job.crashes) == (0, 0)
    asked = _waits_for(job)
    assert asked is not None
    assert asked["for"] == what
    assert kinds(job) == ["wait"]
    assert JobRun.objects.get(job_id=job.pk).outcome == RunOutcome.WAITING


@pytest.mark.parametrize("status", sorted(WAITERS))
def test_a_waiting_job_holds_whatever_the_queue_and_its_duties_do(status: str) -> None:
    job = WAITERS[status][0]()
    before = BuildJob.objects.filter(pk=job.pk).values().get()

    _ticks_that_take_nothing()

    assert BuildJob.objects.filter(pk=job.pk).values().get() == before


@pytest.mark.parametrize(
    "decided",
    sorted(set(ActionStatus) - {ActionStatus.AWAITING_REVIEW, ActionStatus.EXECUTING}),
)
def test_a_wait_for_what_is_decided_already_is_over_at_once(decided: str) -> None:
    job = _running()
    make_action(job, decided)

    assert report(job, WaitForApproval()).status == JobStatus.PENDING


@pytest.mark.parametrize("ended", sorted(FINAL))
def test_a_wait_for_children_that_have_all_ended_is_over_at_once(ended: str) -> None:
    job = _running()
    make_job(ended, parent=job)

    after = report(job, WaitForChildren(on_failure="collect"))

    assert after.status == JobStatus.PENDING


def test_one_undecided_action_of_several_keeps_the_job_waiting() -> None:
    job = _running()
    first, second = make_action(job, key="a"), make_action(job, key="b")
    report(job, WaitForApproval())

    actions.approve(first.pk, content_hash=first.content_hash, actor=ANNA)
    assert fresh(job).status == JobStatus.WAITING_APPROVAL
    actions.deny(second.pk, content_hash=second.content_hash, actor=ANNA, reason="no")

    assert fresh(job).status == JobStatus.PENDING
    assert kinds(job)[-2:] == ["action_denied", "wake"]


# -- pausing -------------------------------------------------------------------------


def _pending() -> BuildJob:
    return make_job()


def _scheduled() -> BuildJob:
    later = timezone.now() + timedelta(hours=1)
    return make_job(JobStatus.SCHEDULED, due_at=later)


OPEN_JOBS: dict[str, tuple[Callable[[], BuildJob], str]] = {
    # status -> (how it is made, where it is after pause and resume)
    JobStatus.PENDING: (_pending, JobStatus.PENDING),
    JobStatus.SCHEDULED: (_scheduled, JobStatus.SCHEDULED),
    JobStatus.IN_PROGRESS: (_running, JobStatus.PENDING),
    JobStatus.WAITING_INPUT: (_for_input, JobStatus.WAITING_INPUT),
    JobStatus.WAITING_APPROVAL: (_for_approval, JobStatus.WAITING_APPROVAL),
    JobStatus.WAITING_CHILDREN: (_for_children, JobStatus.WAITING_CHILDREN),
}


def test_every_open_status_but_paused_is_tried() -> None:
    assert set(OPEN_JOBS) == OPEN - {JobStatus.PAUSED}


@pytest.mark.parametrize("status", sorted(OPEN_JOBS))
def test_a_job_paused_in_any_open_status_holds_and_goes_on_where_it_was(
    status: str,
) -> None:
    make, then = OPEN_JOBS[status]
    job = make()
    asked = _waits_for(job)

    paused = verbs.pause(job.pk, actor=ANNA, reason="the shop is closed")
    _end_run(job)
    assert paused.status == JobStatus.PAUSED
    _ticks_that_take_nothing()
    assert fresh(job).status == JobStatus.PAUSED
    assert _waits_for(job) == asked
    resumed = verbs.resume(job.pk, actor=ANNA)

    assert resumed.status == then
    assert _waits_for(job) == asked
    assert (resumed.failures, resumed.crashes) == (0, 0)
    own = [kind for kind in kinds(job) if kind != "run_ended"]
    assert own[-2:] == ["pause", "resume"]


@pytest.mark.parametrize("status", [*sorted(FINAL), JobStatus.PAUSED])
def test_what_has_ended_or_is_paused_is_changed_by_no_tick(status: str) -> None:
    job = make_job(status)
    before = BuildJob.objects.filter(pk=job.pk).values().get()

    _ticks_that_take_nothing()

    assert BuildJob.objects.filter(pk=job.pk).values().get() == before


@pytest.mark.parametrize("status", [s for s in JobStatus if s != JobStatus.PAUSED])
def test_only_a_paused_job_can_be_resumed(status: str) -> None:
    job = make_job(status)

    with pytest.raises(InvalidTransition) as refused:
        verbs.resume(job.pk, actor=ANNA)

    assert refused.value.found == status


def test_a_job_whose_time_came_while_it_was_paused_is_pending() -> None:
    job = _scheduled()
    verbs.pause(job.pk, actor=ANNA)
    BuildJob.objects.update(due_at=timezone.now() - timedelta(seconds=1))

    assert verbs.resume(job.pk, actor=ANNA).status == JobStatus.PENDING


def test_a_decision_on_a_paused_job_does_not_wake_it_and_its_resume_does() -> None:
    job = _for_approval()
    [action] = job.actions.all()
    verbs.pause(job.pk, actor=ANNA)

    actions.approve(action.pk, content_hash=action.content_hash, actor=ANNA)
    assert fresh(job).status == JobStatus.PAUSED
    with transaction.atomic():
        resumed = verbs.resume(job.pk, actor=ANNA)

    assert resumed.status == JobStatus.PENDING
    assert kinds(job) == ["wait", "pause", "action_approved", "resume", "wake"]
    assert _waits_for(job) is None


@pytest.mark.parametrize(
    ("outcome", "status"), [(Done(), "pending"), (Fail(reason="no"), "failed")]
)
def test_children_that_end_under_a_paused_parent_are_seen_at_its_resume(
    outcome: Done | Fail, status: str
) -> None:
    parent = _running()
    child = _running(parent=parent)
    report(parent, WaitForChildren(on_failure="fail"))
    verbs.pause(parent.pk, actor=ANNA)

    report(child, outcome)
    assert recovery.repair_pairs() == 0
    assert fresh(parent).status == JobStatus.PAUSED
    resumed = verbs.resume(parent.pk, actor=ANNA)

    assert resumed.status == status


def test_a_paused_job_cannot_be_answered_and_asks_the_same_after_its_resume() -> None:
    job = _for_input()
    verbs.pause(job.pk, actor=ANNA)

    with pytest.raises(InvalidTransition) as refused:
        verbs.answer(job.pk, values={"n": 3}, actor=ANNA)
    verbs.resume(job.pk, actor=ANNA)
    answered = verbs.answer(job.pk, values={"n": 3}, actor=ANNA)

    assert refused.value.found == JobStatus.PAUSED
    assert answered.status == JobStatus.PENDING


def test_a_job_that_has_waited_before_does_not_wait_again_after_a_resume() -> None:
    job = _for_input()
    verbs.answer(job.pk, values={"n": 3}, actor=ANNA)
    verbs.pause(job.pk, actor=ANNA)

    assert verbs.resume(job.pk, actor=ANNA).status == JobStatus.PENDING


@pytest.mark.parametrize("verb", ["pause", "cancel"])
def test_a_run_that_a_person_stopped_leaves_no_effect_and_no_report(verb: str) -> None:
    job = _running()
    assert job.lease_id is not None
    ctx = Context(job=job, lease_id=job.lease_id)
    verbs.VERBS[verb][0](job.pk, actor=ANNA, reason="stop")
    wanted = fresh(job).status

    with pytest.raises(LostLeaseError), ctx.step("charge"):
        Effect.objects.create(label="charged")
    with pytest.raises(LostLeaseError):
        report(job, Done())
    _end_run(job)
    _ticks_that_take_nothing()

    assert fresh(job).status == wanted
    assert not Effect.objects.exists()


def test_a_resumed_job_goes_on_after_its_finished_steps(add_kind: AddKind) -> None:
    def handle(ctx: Context, payload: object) -> None:
        with ctx.step("first") as step:
            if not step.done:
                Effect.objects.create(label="first", attempt=ctx.attempt)
        if ctx.attempt == 1:
            verbs.pause(ctx.job.pk, actor=ANNA)
        with ctx.step("second"):
            Effect.objects.create(label="second", attempt=ctx.attempt)

    job = make_job(payload={"kind": add_kind(function=handle)})

    paused = turn()
    assert paused is not None
    assert paused.status == JobStatus.PAUSED
    verbs.resume(job.pk, actor=ANNA)
    done = turn()

    assert done is not None
    assert done.status == JobStatus.DONE
    effects = list(Effect.objects.order_by("pk").values_list("label", "attempt"))
    assert effects == [("first", 1), ("second", 2)]


@contextmanager
def _memory_held(job: BuildJob) -> Iterator[None]:
    """Hold the job's row of progress, as the last step of a revoked run may."""
    with psycopg.connect(url_of(connection.settings_dict["NAME"])) as session:
        session.execute(
            "SELECT 1 FROM buildqueue_jobprogress WHERE job_id = %s FOR UPDATE",
            [job.pk],
        )
        yield
        session.rollback()


def test_pausing_and_resuming_does_not_wait_for_the_last_step_of_the_run() -> None:
    job = _running()
    JobProgress.objects.create(job_id=job.pk)

    with _memory_held(job), connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '1s'")
        verbs.pause(job.pk, actor=ANNA)
        resumed = verbs.resume(job.pk, actor=ANNA)

    assert resumed.status == JobStatus.PENDING


# -- fairness ------------------------------------------------------------------------


@pytest.mark.parametrize("waiting", [4, 500])
def test_what_waits_for_a_person_keeps_nobody_from_its_turn(waiting: int) -> None:
    old = timezone.now() - timedelta(hours=1)
    payload = make_job(JobStatus.DONE).payload
    BuildJob.objects.bulk_create(
        BuildJob(
            payload=payload,
            status=JobStatus.WAITING_APPROVAL,
            priority=100,
            due_at=old,
            created_at=old,
            attempt=1,
        )
        for _ in range(waiting)
    )
    ready = make_job()

    taken = claim()

    assert taken is not None
    assert taken.pk == ready.pk
    assert claim() is None
