"""Is what may have happened said, not repeated, and settled by a person?"""

from __future__ import annotations

from typing import Any

import pytest

from buildqueue.exceptions import OutcomeUnknown, Unavailable
from buildqueue.models import JobAction, JobEvent
from buildqueue.queue import actions, recovery, verbs
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import (
    Cancel,
    Done,
    Fail,
    Outcome,
    Retry,
    Snooze,
    WaitForApproval,
)
from buildqueue.states import ActionStatus, JobStatus
from tests.support.acting import (
    ANNA,
    BERT,
    LEAVE,
    MAIL,
    Provider,
    approve,
    code_of,
    fresh_action,
    make_mail,
    waiting,
)
from tests.support.attempts import elsewhere, run_again
from tests.support.jobs import fresh, story
from tests.support.turns import report

S = ActionStatus

pytestmark = pytest.mark.usefixtures("committed")


@pytest.mark.parametrize(
    "answer",
    [
        TimeoutError("no answer"),
        Unavailable("gateway", "502"),
        ValueError("unreadable answer"),
        SystemExit(1),
        KeyboardInterrupt(),
        "not a receipt",
        {"at": object()},
        {"rate": float("nan")},
    ],
    ids=lambda given: type(given).__name__ + str(len(str(given)) % 7),
)
def test_what_may_have_happened_fails_the_job_and_is_not_repeated_before_it_is_settled(
    ctx: Context, answer: object
) -> None:
    action = ctx.propose("mail", MAIL, title="Mail to Carl", review=False)
    provider = Provider(answer, {"id": "m2"})
    verbs.release(ctx.job.pk, actor=ANNA, reason="again")
    recovery.end_own_run(ctx.lease_id)

    job = run_again(ctx.job, lambda run: run.perform("mail", provider))

    assert (job.status, job.error_code) == (JobStatus.FAILED, "outcome_unknown")
    assert "Mail to Carl" in (job.error_msg or "")
    assert fresh_action(action).status == S.OUTCOME_UNKNOWN
    assert code_of(verbs.retry, job.pk, actor=ANNA) == "outcome_unknown"
    assert fresh(job).status == JobStatus.FAILED
    assert provider.calls == 1


@pytest.mark.parametrize("happened", [True, False])
def test_a_person_settles_what_became_of_it_and_the_retry_goes_by_that(
    ctx: Context, happened: bool
) -> None:
    action = ctx.propose("mail", MAIL, review=False)
    provider = Provider(TimeoutError("no answer"), {"id": "m2"})
    with pytest.raises(OutcomeUnknown):
        ctx.perform("mail", provider)
    with pytest.raises(OutcomeUnknown):
        ctx.perform("mail", provider)
    verbs.force_fail(ctx.job.pk, actor=ANNA, reason="unknown")
    recovery.end_own_run(ctx.lease_id)
    settle: dict[str, Any] = {"happened": happened, "actor": ANNA}

    assert code_of(actions.settle, action.pk, reason="", **settle) == "reason_required"
    actions.settle(action.pk, reason="asked the provider", **settle)
    found = code_of(actions.settle, action.pk, reason="again", **settle)

    assert found == "already_decided"
    event = JobEvent.objects.get(kind="action_settled")
    assert (event.actor, event.reason) == ("anna", "asked the provider")
    receipts: list[dict[str, Any]] = []
    verbs.retry(ctx.job.pk, actor=ANNA)
    job = run_again(ctx.job, lambda run: receipts.append(run.perform("mail", provider)))
    assert job.status == JobStatus.DONE
    assert provider.calls == (1 if happened else 2)
    assert receipts == [{} if happened else {"id": "m2"}]
    settled = fresh_action(action)
    assert (settled.settled_by, settled.settled_reason) == (
        "anna",
        "asked the provider",
    )
    assert settled.settled_at is not None


def test_a_settlement_leaves_the_decision_as_it_was_made(ctx: Context) -> None:
    action = waiting(ctx)
    approve(action, BERT, reason="looks right")
    run_again(ctx.job, lambda run: run.perform("mail", Provider(TimeoutError())))

    actions.settle(
        action.pk, happened=True, actor=ANNA, reason="saw it", receipt={"id": "m1"}
    )

    now = fresh_action(action)
    assert (now.decided_by, now.decided_by_id, now.reason) == (
        "bert",
        "8",
        "looks right",
    )
    assert (now.settled_by, now.settled_reason, now.receipt) == (
        "anna",
        "saw it",
        {"id": "m1"},
    )


def _swallow(ctx: Context) -> JobAction:
    """Perform an action, and go on as if nobody had said that its end is not known."""
    action = ctx.propose("mail", MAIL, title="Mail to Carl", review=False)
    with pytest.raises(OutcomeUnknown):
        ctx.perform("mail", Provider(TimeoutError("no answer")))
    return action


@pytest.mark.parametrize(
    "outcome",
    [
        Done(result={"mailed": True}),
        Cancel(reason="pointless"),
        Retry(reason="so"),
        Snooze(delay_seconds=0),
        WaitForApproval(),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
def test_whatever_a_run_reports_its_job_fails_by_an_outcome_it_did_not_listen_to(
    ctx: Context, outcome: Outcome
) -> None:
    action = _swallow(ctx)

    job = report(ctx.job, outcome)

    assert (job.status, job.error_code) == (JobStatus.FAILED, "outcome_unknown")
    assert "Mail to Carl" in (job.error_msg or "")
    assert (job.result, job.runs.get().outcome) == (None, "failed")
    assert code_of(verbs.retry, job.pk, actor=ANNA) == "outcome_unknown"
    assert story(job).count(("action_outcome_unknown", "Mail to Carl")) == 1
    actions.settle(action.pk, happened=False, actor=ANNA, reason="looked")
    verbs.retry(job.pk, actor=ANNA)
    provider = Provider({"id": "m2"})
    again = run_again(job, lambda run: run.perform("mail", provider))
    assert (again.status, provider.calls) == (JobStatus.DONE, 1)


def test_what_it_says_of_its_own_failure_stays(ctx: Context) -> None:
    _swallow(ctx)

    job = report(ctx.job, Fail(reason="the mail is lost", code="mail_lost"))

    assert (job.status, job.error_code) == (JobStatus.FAILED, "mail_lost")


@pytest.mark.parametrize("name", ["rescue", "hand_back", "release"])
def test_a_run_that_dies_behind_an_outcome_it_did_not_listen_to_does_not_go_on(
    ctx: Context, name: str
) -> None:
    _swallow(ctx)

    LEAVE[name][0](ctx.job)

    job = fresh(ctx.job)
    assert (job.status, job.error_code) == (JobStatus.FAILED, "outcome_unknown")


@pytest.mark.parametrize("happened", [True, False])
def test_what_was_settled_meanwhile_is_no_fault_of_the_run(
    ctx: Context, happened: bool
) -> None:
    action = _swallow(ctx)
    elsewhere(actions.settle, action.pk, happened=happened, actor=ANNA, reason="looked")

    assert report(ctx.job, Done(result={"n": 1})).status == JobStatus.DONE
    assert fresh(ctx.job).result == {"n": 1}


def test_only_what_is_unknown_is_settled(ctx: Context) -> None:
    for status in set(S) - {S.OUTCOME_UNKNOWN}:
        action = make_mail(ctx.job, status)

        named: dict[str, Any] = {"happened": False, "actor": ANNA, "reason": "why"}
        assert code_of(actions.settle, action.pk, **named) == "already_decided", status
        assert fresh_action(action).status == status
