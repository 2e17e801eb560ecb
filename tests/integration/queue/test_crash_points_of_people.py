"""Is what a person does wholly there or not at all, wherever the process is killed?

As in `test_crash_points`: killed before each statement, and looked at after each time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from buildqueue.models import JobAction, JobProgress
from buildqueue.queue import actions, verbs
from buildqueue.queue.outcomes import Actor, WaitForApproval
from buildqueue.states import ActionStatus, JobStatus
from tests.factories import make_job
from tests.support.decisions import ask_how_many, make_action
from tests.support.jobs import fresh, kinds
from tests.support.killing import all_or_nothing, ended_as
from tests.support.turns import report

pytestmark = pytest.mark.usefixtures("committed")

ANNA = Actor(label="anna", id="7")


@pytest.mark.parametrize(
    ("name", "start", "end", "outcome"),
    [
        ("cancel", "in_progress", "cancelled", None),
        ("pause", "in_progress", "paused", None),
        ("release", "in_progress", "pending", None),
        ("force_fail", "in_progress", "failed", None),
    ],
)
def test_a_verb_on_a_running_job(
    name: str, start: str, end: str, outcome: str | None
) -> None:
    job = make_job(start)
    all_or_nothing(
        lambda: verbs.VERBS[name][0](job.pk, actor=ANNA, reason="because"),
        ended_as(job, end, outcome, name),
    )


@pytest.mark.parametrize(("name", "start"), [("resume", "paused"), ("retry", "failed")])
def test_a_verb_that_lets_a_job_go_on(name: str, start: str) -> None:
    job = make_job(start)
    all_or_nothing(
        lambda: verbs.VERBS[name][0](job.pk, actor=ANNA, reason="because"),
        lambda: fresh(job).status == "pending" and kinds(job) == [name],
    )


def test_an_answer() -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    ask_how_many(job)
    all_or_nothing(
        lambda: verbs.answer(job.pk, values={"n": 3}, actor=ANNA),
        lambda: (
            fresh(job).status == "pending"
            and JobProgress.objects.get().answers == {"n": 3}
            and JobProgress.objects.get().waits_for is None
            and kinds(job) == ["wait", "answered", "wake"]
        ),
    )


def test_another_priority() -> None:
    job = make_job()
    all_or_nothing(
        lambda: verbs.change_priority(job.pk, priority=5, actor=ANNA),
        lambda: fresh(job).priority == 5 and kinds(job) == ["priority_changed"],
    )


def test_another_due_time() -> None:
    job = make_job()
    later = timezone.now() + timedelta(hours=1)
    all_or_nothing(
        lambda: verbs.change_due(job.pk, due_at=later, actor=ANNA),
        lambda: fresh(job).status == "scheduled" and kinds(job) == ["reschedule"],
    )


@pytest.mark.parametrize("decide", [actions.approve, actions.deny])
def test_a_decision(decide: Callable[..., JobAction]) -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    action = make_action(job, ActionStatus.AWAITING_REVIEW)
    report(job, WaitForApproval())
    all_or_nothing(
        lambda: decide(
            action.pk, content_hash=action.content_hash, actor=ANNA, reason="because"
        ),
        lambda: (
            fresh(job).status == "pending"
            and JobAction.objects.get().decided_by == "anna"
            and len(kinds(job)) == 3
        ),
    )


def test_settling() -> None:
    job = make_job(JobStatus.FAILED)
    action = make_action(job, ActionStatus.OUTCOME_UNKNOWN)
    all_or_nothing(
        lambda: actions.settle(action.pk, happened=True, actor=ANNA, reason="seen"),
        lambda: (
            JobAction.objects.get().status == "succeeded"
            and kinds(job) == ["action_settled"]
        ),
    )


def test_an_expiry() -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    make_action(job, ActionStatus.AWAITING_REVIEW)
    report(job, WaitForApproval())
    JobAction.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    all_or_nothing(
        actions.expire_old,
        lambda: (
            fresh(job).status == "pending"
            and JobAction.objects.get().status == "expired"
        ),
    )
