"""Who decides on an action, in time, once, and on what was really seen?"""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from buildqueue.exceptions import ActionRefused, NotDone, Refused
from buildqueue.models import JobAction, JobEvent
from buildqueue.queue import actions, verbs
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import WaitForApproval
from buildqueue.states import ActionStatus, JobStatus
from tests.support.acting import (
    ANNA,
    BERT,
    MAIL,
    Provider,
    approve,
    code_of,
    deny,
    fresh_action,
    make_late,
    waiting,
)
from tests.support.attempts import run_again, run_of
from tests.support.jobs import fresh, story
from tests.support.races import race
from tests.support.turns import report

S = ActionStatus

pytestmark = pytest.mark.usefixtures("committed")


# -- deciding ------------------------------------------------------------------------


def test_an_approved_action_wakes_its_job_which_performs_it(ctx: Context) -> None:
    action = waiting(ctx)
    provider = Provider({"id": "m1"})

    approved = approve(action, reason="looks right")

    assert (approved.status, approved.decided_by, approved.decided_by_id) == (
        S.APPROVED,
        "anna",
        "7",
    )
    assert (approved.reason, approved.decided_at is not None) == ("looks right", True)
    assert fresh(ctx.job).status == JobStatus.PENDING
    job = run_again(ctx.job, lambda run: run.perform("mail", provider))
    assert (job.status, provider.calls) == (JobStatus.DONE, 1)
    ended = fresh_action(action)
    assert (ended.status, ended.receipt) == (S.SUCCEEDED, {"id": "m1"})
    assert ended.started_at is not None
    assert ended.ended_at is not None
    kinds = [kind for kind, _ in story(ctx.job) if kind.startswith("action_")]
    assert kinds == [
        "action_proposed",
        "action_approved",
        "action_executing",
        "action_succeeded",
    ]
    event = JobEvent.objects.get(kind="action_approved")
    assert (event.actor, event.actor_id, event.reason, event.title) == (
        "anna",
        "7",
        "looks right",
        "Mail to Carl",
    )
    assert event.detail == {"action": str(action.pk), "key": "mail"}


def test_a_denied_action_fails_its_job_with_the_reason(ctx: Context) -> None:
    action = waiting(ctx)
    provider = Provider({})

    assert code_of(deny, action, reason=" ") == "reason_required"
    deny(action, reason="wrong address")

    job = run_again(ctx.job, lambda run: run.perform("mail", provider))
    assert (job.status, job.error_code) == (JobStatus.FAILED, "action_denied")
    assert "wrong address" in (job.error_msg or "")
    assert (provider.calls, fresh_action(action).status) == (0, S.DENIED)


def test_who_has_seen_other_content_decides_nothing(ctx: Context) -> None:
    action = waiting(ctx)
    other = actions.hash_of(MAIL | {"to": "everybody"})

    for digest in (other, "", action.content_hash.upper()):
        named = {"content_hash": digest, "actor": ANNA, "reason": "why"}
        assert code_of(actions.approve, action.pk, **named) == "content_changed"
        assert code_of(actions.deny, action.pk, **named) == "content_changed"

    assert fresh_action(action).status == S.AWAITING_REVIEW
    assert fresh(ctx.job).status == JobStatus.WAITING_APPROVAL


def test_what_nobody_has_heard_of_is_not_found(committed: None) -> None:
    unknown = uuid.uuid4()
    named: dict[str, Any] = {"actor": ANNA, "reason": "why"}

    assert code_of(actions.approve, unknown, content_hash="", **named) == "not_found"
    assert code_of(actions.deny, unknown, content_hash="", **named) == "not_found"
    assert code_of(actions.settle, unknown, happened=True, **named) == "not_found"


def test_of_two_who_approve_at_once_one_does_and_it_is_performed_once(
    committed: None,
) -> None:
    for _ in range(50):
        with run_of() as ctx:
            action = waiting(ctx)

            def decide(number: int, action: JobAction = action) -> str:
                try:
                    return str(approve(action, (ANNA, BERT)[number]).status)
                except Refused as refused:
                    return refused.code

            assert sorted(race(2, decide)) == ["already_decided", "approved"]
            provider = Provider({})
            job = run_again(
                ctx.job, lambda run, provider=provider: run.perform("mail", provider)
            )
            assert (job.status, provider.calls) == (JobStatus.DONE, 1)
            approvals = JobEvent.objects.filter(job_id=job.pk, kind="action_approved")
            assert approvals.count() == 1


def test_what_is_decided_is_not_decided_again(ctx: Context) -> None:
    action = waiting(ctx)
    approve(action)

    with pytest.raises(Refused, match="decided by anna") as refused:
        deny(action, reason="too late", actor=BERT)

    assert (refused.value.code, refused.value.status) == ("already_decided", 409)
    assert refused.value.extra == {"found": "approved"}


# -- time ----------------------------------------------------------------------------


def test_a_decision_after_its_time_is_refused_and_the_job_goes_on(ctx: Context) -> None:
    action = waiting(ctx)
    make_late(action)

    assert code_of(approve, action) == "action_expired"

    assert fresh_action(action).status == S.EXPIRED
    provider = Provider({})
    job = run_again(ctx.job, lambda run: run.perform("mail", provider))
    assert (job.status, job.error_code) == (JobStatus.FAILED, "action_expired")
    assert provider.calls == 0
    assert code_of(approve, action) == "already_decided"


def test_what_nobody_decides_in_time_expires_by_a_duty_once(ctx: Context) -> None:
    action = waiting(ctx)
    with run_of() as other:
        in_time = waiting(other)
        make_late(action)

        assert (actions.expire_old(), actions.expire_old()) == (1, 0)

        assert (fresh_action(action).status, fresh_action(in_time).status) == (
            S.EXPIRED,
            S.AWAITING_REVIEW,
        )
        assert fresh(ctx.job).status == JobStatus.PENDING
        assert fresh(other.job).status == JobStatus.WAITING_APPROVAL


def test_an_approval_too_old_is_performed_no_more(ctx: Context) -> None:
    action = ctx.propose("mail", MAIL, review=False)
    make_late(action)
    provider = Provider({})

    with pytest.raises(ActionRefused) as refused:
        ctx.perform("mail", provider)

    assert (refused.value.code, provider.calls) == ("action_expired", 0)
    assert fresh_action(action).status == S.EXPIRED


def test_what_failed_may_be_tried_again_only_while_its_approval_holds(
    ctx: Context,
) -> None:
    action = ctx.propose("mail", MAIL, review=False)
    provider = Provider(NotDone("not yet"), {})
    with pytest.raises(NotDone):
        ctx.perform("mail", provider)
    make_late(action)

    with pytest.raises(ActionRefused) as refused:
        ctx.perform("mail", provider)

    assert (refused.value.code, provider.calls) == ("action_expired", 1)
    assert fresh_action(action).status == S.EXPIRED


def test_an_action_asked_anew_waits_as_long_as_it_did_and_no_longer(
    ctx: Context,
) -> None:
    action = ctx.propose("mail", MAIL, expires_in=timedelta(hours=1))
    verbs.cancel(ctx.job.pk, actor=ANNA)
    for _ in range(3):
        week = timedelta(days=7)
        JobAction.objects.filter(pk=action.pk).update(
            asked_at=F("asked_at") - week, expires_at=F("expires_at") - week
        )
        verbs.retry(ctx.job.pk, actor=ANNA)
        asked = fresh_action(action)
        assert asked.expires_at is not None
        waits = (asked.expires_at - asked.asked_at).total_seconds()
        assert waits == pytest.approx(3600, abs=1)
        verbs.cancel(ctx.job.pk, actor=ANNA)


# -- races ---------------------------------------------------------------------------


def test_a_decision_and_the_wait_for_it_never_miss_each_other(committed: None) -> None:
    for _ in range(100):
        with run_of() as ctx:
            action = ctx.propose("mail", MAIL)

            def act(
                number: int, ctx: Context = ctx, action: JobAction = action
            ) -> None:
                if number:
                    approve(action)
                else:
                    report(ctx.job, WaitForApproval())

            race(2, act)

            assert fresh(ctx.job).status == JobStatus.PENDING
            assert fresh_action(action).status == S.APPROVED


def test_a_decision_and_a_cancel_at_once_leave_nothing_to_be_done(
    committed: None,
) -> None:
    for _ in range(25):
        with run_of() as ctx:
            action = waiting(ctx)

            def act(number: int, ctx: Context = ctx, action: JobAction = action) -> str:
                try:
                    if number:
                        return str(approve(action).status)
                    return str(verbs.cancel(ctx.job.pk, actor=BERT).status)
                except Refused as refused:
                    return refused.code

            cancelled, decided = race(2, act)

            assert cancelled == "cancelled"
            assert decided in {"approved", "already_decided"}
            assert fresh(ctx.job).status == JobStatus.CANCELLED
            assert fresh_action(action).status == S.CANCELLED
