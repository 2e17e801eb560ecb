"""Does an outside effect happen once at most, only as reviewed, and never unsaid?"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from unittest import mock

import psycopg
import pytest
from django.db import DatabaseError, OperationalError, connection
from django.db import transaction as transactions
from django.db.models import F
from django.test import override_settings
from django.utils import timezone

from buildqueue import conf
from buildqueue.exceptions import (
    ActionRefused,
    LostLeaseError,
    NotDone,
    OutcomeUnknown,
    PermanentError,
    Refused,
    Rejected,
    Unavailable,
)
from buildqueue.models import BuildJob, JobAction, JobEvent, Notice
from buildqueue.queue import actions, recovery, transitions, verbs
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import (
    Actor,
    Cancel,
    Cause,
    Done,
    Fail,
    Outcome,
    Retry,
    Snooze,
    WaitForApproval,
)
from buildqueue.queue.transitions import actionflow
from buildqueue.states import ACTION_FLOW, ActionStatus, JobStatus
from buildqueue.worker import duties, judging, runner
from tests.factories import make_job
from tests.support.attempts import claimed, elsewhere, next_attempt, run_of, taken_over
from tests.support.jobs import fresh, story
from tests.support.races import race

ANNA = Actor(label="anna", id="7")
BERT = Actor(label="bert", id="8")
MAIL = {"to": "carl@example.com", "text": "hello"}
CRASH = Cause(outcome="crashed", code="killed_by_signal", message="killed by SIGKILL")
S = ActionStatus

pytestmark = pytest.mark.usefixtures("committed")


@pytest.fixture
def pager() -> Iterator[None]:
    """Have somebody who wants to be told of everything."""
    everything = {"name": "pager", "events": ["*"], "email": ["ops@example.com"]}
    with override_settings(BUILDQUEUE={"NOTICES": [everything]}):
        yield


class Provider:
    """Counts how often the outside world was asked, and answers as told."""

    def __init__(self, *answers: object) -> None:
        self.calls = 0
        self._answers = answers

    def __call__(self, action: JobAction) -> dict[str, Any] | None:
        self.calls += 1
        answer = self._answers[min(self.calls, len(self._answers)) - 1]
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[return-value]


def _now(action: JobAction) -> JobAction:
    return JobAction.objects.get(pk=action.pk)


def _make(job: BuildJob, status: str, **values: Any) -> JobAction:
    """Make an action in any status, with what the checks want beside it."""
    values.setdefault("key", uuid.uuid4().hex)
    if status == S.EXECUTING:
        values.setdefault("started_at", timezone.now())
        values.setdefault("lease_id", job.lease_id)
    return JobAction.objects.create(
        job=job,
        title="Mail to Carl",
        content=MAIL,
        content_hash=actions.hash_of(MAIL),
        status=status,
        attempt=job.attempt,
        **values,
    )


def _begun(ctx: Context) -> JobAction:
    """Leave an action under way, as a process does that dies in the middle of it."""
    action = ctx.propose("mail", MAIL, title="Mail to Carl", review=False)
    with transactions.atomic():
        return actions.begin(action, ctx.lease_id)


def _waiting(ctx: Context) -> JobAction:
    """Propose, and have the run wait for the decision."""
    action = ctx.propose("mail", MAIL, title="Mail to Carl")
    _report(ctx, WaitForApproval())
    assert fresh(ctx.job).status == JobStatus.WAITING_APPROVAL
    return action


def _report(ctx: Context, outcome: Any) -> BuildJob:
    change = judging.change_of(ctx.job, outcome)
    return transitions.apply(ctx.job.pk, change, fence=ctx.lease_id)


def _run_again(job: BuildJob, function: Callable[[Context], object]) -> BuildJob:
    """Run a pending job by this handler, as a slot does, and return it as it is then."""
    handler = mock.Mock(parse=lambda payload: payload)
    handler.function = lambda ctx, payload: (function(ctx), None)[1]
    with mock.patch("buildqueue.queue.handlers.get", return_value=handler):
        runner.run(claimed(job))
    return fresh(job)


def _approve(action: JobAction, actor: Actor = ANNA, **named: Any) -> JobAction:
    return actions.approve(
        action.pk, content_hash=action.content_hash, actor=actor, **named
    )


def _make_late(action: JobAction) -> None:
    JobAction.objects.filter(pk=action.pk).update(
        expires_at=timezone.now() - timedelta(seconds=5), lease_id=None
    )


def _code(act: Callable[..., object], *args: Any, **named: Any) -> str:
    with pytest.raises(Refused) as refused:
        act(*args, **named)
    return refused.value.code


# -- proposing -----------------------------------------------------------------------


def test_an_action_is_proposed_once_for_its_key(ctx: Context) -> None:
    first = ctx.propose("mail", MAIL, title="Mail to Carl")
    with run_of(next_attempt(ctx)) as second:
        again = second.propose(
            "mail", dict(reversed(MAIL.items())), title="Other words"
        )

    assert again.pk == first.pk
    assert (again.status, again.title, again.attempt) == (
        S.AWAITING_REVIEW,
        "Mail to Carl",
        1,
    )
    assert again.content == MAIL
    assert again.content_hash == actions.hash_of(MAIL)
    assert [title for kind, title in story(ctx.job) if kind == "action_proposed"] == [
        "Mail to Carl"
    ]


def test_twenty_threads_that_propose_make_one_action(ctx: Context) -> None:
    found = race(20, lambda _: ctx.propose("mail", MAIL).pk)

    assert set(found) == {JobAction.objects.get().pk}
    assert [kind for kind, _ in story(ctx.job)] == ["action_proposed"]


def test_other_content_under_the_same_key_is_refused(ctx: Context) -> None:
    action = ctx.propose("mail", MAIL)

    with pytest.raises(PermanentError) as refused:
        ctx.propose("mail", MAIL | {"to": "everybody"})

    assert refused.value.code == "action_changed"
    assert _now(action).content == MAIL


@pytest.mark.parametrize("key", ["", "a" * 201, "nul \x00", "half \ud800"])
def test_a_key_that_cannot_be_kept_is_refused(ctx: Context, key: str) -> None:
    with pytest.raises(ValueError, match="an action needs a key"):
        ctx.propose(key, MAIL)

    assert not JobAction.objects.exists()


def test_texts_in_what_is_proposed_are_made_fit(ctx: Context) -> None:
    action = ctx.propose("mail", {"text": "a\x00\ud800"}, title="nul \x00")

    assert (_now(action).content, _now(action).title) == ({"text": "a␀?"}, "nul ␀")
    assert ctx.propose("mail", {"text": "a\x00\ud800"}).pk == action.pk


def test_what_is_proposed_in_a_step_commits_with_it(ctx: Context) -> None:
    def work() -> None:
        with ctx.step("ask"):
            ctx.propose("mail", MAIL)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        work()

    assert not JobAction.objects.exists()
    assert "action_proposed" not in dict(story(ctx.job))


def test_what_needs_no_review_is_approved_at_once_and_asks_nobody(
    ctx: Context, pager: None
) -> None:

    action = ctx.propose("mail", MAIL, review=False)

    assert action.status == S.APPROVED
    assert not Notice.objects.exists()


def test_what_needs_a_review_tells_people_and_so_does_a_retry(
    ctx: Context, pager: None
) -> None:
    action = _waiting(ctx)
    actions.deny(
        action.pk, content_hash=action.content_hash, actor=ANNA, reason="not now"
    )
    _run_again(ctx.job, lambda run: run.perform("mail", Provider({})))
    verbs.retry(ctx.job.pk, actor=BERT)

    asked = Notice.objects.filter(event="approval.asked")
    assert asked.count() == 2
    assert _now(action).status == S.AWAITING_REVIEW


# -- deciding ------------------------------------------------------------------------


def test_an_approved_action_wakes_its_job_which_performs_it(ctx: Context) -> None:
    action = _waiting(ctx)
    provider = Provider({"id": "m1"})

    approved = _approve(action, reason="looks right")

    assert (approved.status, approved.decided_by, approved.decided_by_id) == (
        S.APPROVED,
        "anna",
        "7",
    )
    assert (approved.reason, approved.decided_at is not None) == ("looks right", True)
    assert fresh(ctx.job).status == JobStatus.PENDING
    job = _run_again(ctx.job, lambda run: run.perform("mail", provider))
    assert (job.status, provider.calls) == (JobStatus.DONE, 1)
    ended = _now(action)
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
    action = _waiting(ctx)
    provider = Provider({})

    assert _code(_deny, action, reason=" ") == "reason_required"
    _deny(action, reason="wrong address")

    job = _run_again(ctx.job, lambda run: run.perform("mail", provider))
    assert (job.status, job.error_code) == (JobStatus.FAILED, "action_denied")
    assert "wrong address" in (job.error_msg or "")
    assert (provider.calls, _now(action).status) == (0, S.DENIED)


def _deny(action: JobAction, *, reason: str, actor: Actor = ANNA) -> JobAction:
    digest = action.content_hash
    return actions.deny(action.pk, content_hash=digest, actor=actor, reason=reason)


def test_who_has_seen_other_content_decides_nothing(ctx: Context) -> None:
    action = _waiting(ctx)
    other = actions.hash_of(MAIL | {"to": "everybody"})

    for digest in (other, "", action.content_hash.upper()):
        named = {"content_hash": digest, "actor": ANNA, "reason": "why"}
        assert _code(actions.approve, action.pk, **named) == "content_changed"
        assert _code(actions.deny, action.pk, **named) == "content_changed"

    assert _now(action).status == S.AWAITING_REVIEW
    assert fresh(ctx.job).status == JobStatus.WAITING_APPROVAL


def test_what_nobody_has_heard_of_is_not_found(committed: None) -> None:
    unknown = uuid.uuid4()
    named: dict[str, Any] = {"actor": ANNA, "reason": "why"}

    assert _code(actions.approve, unknown, content_hash="", **named) == "not_found"
    assert _code(actions.deny, unknown, content_hash="", **named) == "not_found"
    assert _code(actions.settle, unknown, happened=True, **named) == "not_found"


def test_of_two_who_approve_at_once_one_does_and_it_is_performed_once(
    committed: None,
) -> None:
    for _ in range(50):
        with run_of() as ctx:
            action = _waiting(ctx)

            def decide(number: int, action: JobAction = action) -> str:
                try:
                    return str(_approve(action, (ANNA, BERT)[number]).status)
                except Refused as refused:
                    return refused.code

            assert sorted(race(2, decide)) == ["already_decided", "approved"]
            provider = Provider({})
            job = _run_again(
                ctx.job, lambda run, provider=provider: run.perform("mail", provider)
            )
            assert (job.status, provider.calls) == (JobStatus.DONE, 1)
            approvals = JobEvent.objects.filter(job_id=job.pk, kind="action_approved")
            assert approvals.count() == 1


def test_what_is_decided_is_not_decided_again(ctx: Context) -> None:
    action = _waiting(ctx)
    _approve(action)

    with pytest.raises(Refused, match="decided by anna") as refused:
        _deny(action, reason="too late", actor=BERT)

    assert (refused.value.code, refused.value.status) == ("already_decided", 409)
    assert refused.value.extra == {"found": "approved"}


# -- time ----------------------------------------------------------------------------


def test_a_decision_after_its_time_is_refused_and_the_job_goes_on(ctx: Context) -> None:
    action = _waiting(ctx)
    _make_late(action)

    assert _code(_approve, action) == "action_expired"

    assert _now(action).status == S.EXPIRED
    provider = Provider({})
    job = _run_again(ctx.job, lambda run: run.perform("mail", provider))
    assert (job.status, job.error_code) == (JobStatus.FAILED, "action_expired")
    assert provider.calls == 0
    assert _code(_approve, action) == "already_decided"


def test_what_nobody_decides_in_time_expires_by_a_duty_once(ctx: Context) -> None:
    action = _waiting(ctx)
    with run_of() as other:
        in_time = _waiting(other)
        _make_late(action)

        assert (actions.expire_old(), actions.expire_old()) == (1, 0)

        assert (_now(action).status, _now(in_time).status) == (
            S.EXPIRED,
            S.AWAITING_REVIEW,
        )
        assert fresh(ctx.job).status == JobStatus.PENDING
        assert fresh(other.job).status == JobStatus.WAITING_APPROVAL


def test_an_approval_too_old_is_performed_no_more(ctx: Context) -> None:
    action = ctx.propose("mail", MAIL, review=False)
    _make_late(action)
    provider = Provider({})

    with pytest.raises(ActionRefused) as refused:
        ctx.perform("mail", provider)

    assert (refused.value.code, provider.calls) == ("action_expired", 0)
    assert _now(action).status == S.EXPIRED


def test_what_failed_may_be_tried_again_only_while_its_approval_holds(
    ctx: Context,
) -> None:
    action = ctx.propose("mail", MAIL, review=False)
    provider = Provider(NotDone("not yet"), {})
    with pytest.raises(NotDone):
        ctx.perform("mail", provider)
    _make_late(action)

    with pytest.raises(ActionRefused) as refused:
        ctx.perform("mail", provider)

    assert (refused.value.code, provider.calls) == ("action_expired", 1)
    assert _now(action).status == S.EXPIRED


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
        asked = _now(action)
        assert asked.expires_at is not None
        waits = (asked.expires_at - asked.asked_at).total_seconds()
        assert waits == pytest.approx(3600, abs=1)
        verbs.cancel(ctx.job.pk, actor=ANNA)


@pytest.mark.parametrize("seconds", [0, -1])
def test_an_action_that_is_over_before_it_begins_is_refused(
    ctx: Context, seconds: int
) -> None:
    with pytest.raises(ValueError, match="expires_in is above 0"):
        ctx.propose("mail", MAIL, expires_in=timedelta(seconds=seconds))


def test_an_action_says_how_long_it_may_wait(ctx: Context) -> None:
    short = ctx.propose("short", MAIL, expires_in=timedelta(minutes=5))
    usual = ctx.propose("usual", MAIL)

    assert short.expires_at is not None
    assert usual.expires_at is not None
    seconds = conf.get().action_expiry_seconds - 300
    found = (usual.expires_at - short.expires_at).total_seconds()
    assert found == pytest.approx(seconds, abs=60)


# -- performing ----------------------------------------------------------------------


def test_what_was_performed_is_not_performed_again_and_keeps_its_receipt(
    ctx: Context,
) -> None:
    provider = Provider({"id": "m1"})
    ctx.propose("mail", MAIL, review=False)

    assert ctx.perform("mail", provider) == {"id": "m1"}
    assert ctx.perform("mail", provider) == {"id": "m1"}
    with run_of(next_attempt(ctx)) as second:
        second.propose("mail", MAIL, review=False)
        assert second.perform("mail", provider) == {"id": "m1"}

    assert provider.calls == 1


def test_its_function_gets_the_action_outside_of_any_transaction(ctx: Context) -> None:
    proposed = ctx.propose("mail", MAIL, review=False)

    def send(action: JobAction) -> None:
        assert not connection.in_atomic_block
        assert (action.pk, action.content) == (proposed.pk, MAIL)
        seen = elsewhere(_now, action)
        assert (seen.status, seen.lease_id) == (S.EXECUTING, ctx.lease_id)

    assert ctx.perform("mail", send) == {}


def test_what_is_not_decided_or_not_proposed_is_not_performed(ctx: Context) -> None:
    ctx.propose("mail", MAIL)
    provider = Provider({})

    with pytest.raises(PermanentError) as undecided:
        ctx.perform("mail", provider)
    with pytest.raises(PermanentError) as unknown:
        ctx.perform("letter", provider)

    codes = (undecided.value.code, unknown.value.code)
    assert codes == ("not_approved", "not_proposed")
    assert provider.calls == 0


def test_an_effect_is_not_performed_inside_a_transaction(ctx: Context) -> None:
    ctx.propose("mail", MAIL, review=False)
    provider = Provider({})

    def nest() -> None:
        with transactions.atomic():
            ctx.perform("mail", provider)

    with pytest.raises(PermanentError) as refused:
        nest()

    assert (refused.value.code, provider.calls) == ("effect_in_transaction", 0)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotDone("the server was not reached"), JobStatus.SCHEDULED),
        (Rejected("bad_address", "no such address"), JobStatus.FAILED),
    ],
)
def test_what_certainly_did_not_happen_may_be_performed_again(
    ctx: Context, error: Exception, status: str
) -> None:
    action = ctx.propose("mail", MAIL, review=False)
    provider = Provider(error, {"id": "m1"})
    verbs.release(ctx.job.pk, actor=ANNA, reason="again")
    recovery.end_own_run(ctx.lease_id)

    job = _run_again(ctx.job, lambda run: run.perform("mail", provider))

    assert job.status == status
    assert (_now(action).status, _now(action).error_msg) == (S.FAILED, str(error))
    if status == JobStatus.SCHEDULED:
        BuildJob.objects.filter(pk=job.pk).update(due_at=timezone.now())
        transitions.promote_due()
    else:
        verbs.retry(job.pk, actor=ANNA)
    assert _run_again(job, lambda run: run.perform("mail", provider)).status == "done"
    assert (_now(action).status, _now(action).error_msg) == (S.SUCCEEDED, None)
    assert provider.calls == 2


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

    job = _run_again(ctx.job, lambda run: run.perform("mail", provider))

    assert (job.status, job.error_code) == (JobStatus.FAILED, "outcome_unknown")
    assert "Mail to Carl" in (job.error_msg or "")
    assert _now(action).status == S.OUTCOME_UNKNOWN
    assert _code(verbs.retry, job.pk, actor=ANNA) == "outcome_unknown"
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

    assert _code(actions.settle, action.pk, reason="", **settle) == "reason_required"
    actions.settle(action.pk, reason="asked the provider", **settle)
    found = _code(actions.settle, action.pk, reason="again", **settle)

    assert found == "already_decided"
    event = JobEvent.objects.get(kind="action_settled")
    assert (event.actor, event.reason) == ("anna", "asked the provider")
    receipts: list[dict[str, Any]] = []
    verbs.retry(ctx.job.pk, actor=ANNA)
    job = _run_again(
        ctx.job, lambda run: receipts.append(run.perform("mail", provider))
    )
    assert job.status == JobStatus.DONE
    assert provider.calls == (1 if happened else 2)
    assert receipts == [{} if happened else {"id": "m2"}]
    settled = _now(action)
    assert (settled.settled_by, settled.settled_reason) == (
        "anna",
        "asked the provider",
    )
    assert settled.settled_at is not None


def test_a_settlement_leaves_the_decision_as_it_was_made(ctx: Context) -> None:
    action = _waiting(ctx)
    _approve(action, BERT, reason="looks right")
    _run_again(ctx.job, lambda run: run.perform("mail", Provider(TimeoutError())))

    actions.settle(
        action.pk, happened=True, actor=ANNA, reason="saw it", receipt={"id": "m1"}
    )

    now = _now(action)
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


# -- a handler that does not listen ----------------------------------------------------


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

    job = _report(ctx, outcome)

    assert (job.status, job.error_code) == (JobStatus.FAILED, "outcome_unknown")
    assert "Mail to Carl" in (job.error_msg or "")
    assert (job.result, job.runs.get().outcome) == (None, "failed")
    assert _code(verbs.retry, job.pk, actor=ANNA) == "outcome_unknown"
    assert story(job).count(("action_outcome_unknown", "Mail to Carl")) == 1
    actions.settle(action.pk, happened=False, actor=ANNA, reason="looked")
    verbs.retry(job.pk, actor=ANNA)
    provider = Provider({"id": "m2"})
    again = _run_again(job, lambda run: run.perform("mail", provider))
    assert (again.status, provider.calls) == (JobStatus.DONE, 1)


def test_what_it_says_of_its_own_failure_stays(ctx: Context) -> None:
    _swallow(ctx)

    job = _report(ctx, Fail(reason="the mail is lost", code="mail_lost"))

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

    assert _report(ctx, Done(result={"n": 1})).status == JobStatus.DONE
    assert fresh(ctx.job).result == {"n": 1}


def test_effects_that_threads_perform_at_once_do_not_wait_for_each_other(
    ctx: Context,
) -> None:
    keys = [str(number) for number in range(6)]
    for key in keys:
        ctx.propose(key, MAIL, review=False)

    race(6, lambda number: ctx.perform(keys[number], Provider({"id": number})))

    receipts = dict(JobAction.objects.values_list("key", "receipt"))
    assert receipts == {key: {"id": int(key)} for key in keys}


def test_only_what_is_unknown_is_settled(ctx: Context) -> None:
    for status in set(S) - {S.OUTCOME_UNKNOWN}:
        action = _make(ctx.job, status)

        named: dict[str, Any] = {"happened": False, "actor": ANNA, "reason": "why"}
        assert _code(actions.settle, action.pk, **named) == "already_decided", status
        assert _now(action).status == status


def test_a_lost_connection_while_the_receipt_is_stored_is_tried_again(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = ctx.propose("mail", MAIL, review=False)
    real, cut = psycopg.Connection.commit, []

    def commit(session: psycopg.Connection[Any]) -> None:
        real(session)
        if provider.calls and not cut:
            cut.append(session)
            session.close()
            raise psycopg.OperationalError("server closed the connection")

    provider = Provider({"id": "m1"})
    monkeypatch.setattr(psycopg.Connection, "commit", commit)

    assert ctx.perform("mail", provider) == {"id": "m1"}

    assert (provider.calls, len(cut)) == (1, 1)
    assert _now(action).status == S.SUCCEEDED
    kinds = [kind for kind, _ in story(ctx.job)]
    assert kinds.count("action_succeeded") == 1


def test_an_effect_is_not_begun_when_that_cannot_be_stored(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx.propose("mail", MAIL, review=False)
    provider = Provider({})

    def commit(session: psycopg.Connection[Any]) -> None:
        session.close()
        raise psycopg.OperationalError("server closed the connection")

    monkeypatch.setattr(psycopg.Connection, "commit", commit)
    with pytest.raises(OperationalError):
        ctx.perform("mail", provider)
    monkeypatch.undo()

    assert provider.calls == 0


# -- a run that ends in the middle of it ---------------------------------------------


def _hand_back(job: BuildJob) -> object:
    assert job.slot is not None
    return duties.hand_back(job.slot, CRASH)


def _rescue_slot(job: BuildJob) -> object:
    assert job.slot is not None
    return recovery.rescue_slot(job.slot, CRASH, started=job.lease_id)


def _rescue_unstarted(job: BuildJob) -> object:
    assert job.slot is not None
    return recovery.rescue_slot(job.slot, CRASH, started=None)


def _rescue_expired(job: BuildJob) -> object:
    past = timezone.now() - timedelta(seconds=5)
    BuildJob.objects.filter(pk=job.pk).update(lease_until=past)
    return recovery.rescue_expired()


LEAVE: dict[str, tuple[Callable[[BuildJob], object], str]] = {
    "rescue": (_rescue_slot, JobStatus.FAILED),
    "rescue_unstarted": (_rescue_unstarted, JobStatus.FAILED),
    "rescue_worker": (lambda j: recovery.rescue_worker(j.worker), JobStatus.FAILED),  # type: ignore[arg-type]
    "lease_over": (_rescue_expired, JobStatus.FAILED),
    "hand_back": (_hand_back, JobStatus.FAILED),
    "release": (
        lambda j: verbs.release(j.pk, actor=ANNA, reason="slow"),
        JobStatus.FAILED,
    ),
    "pause": (lambda j: verbs.pause(j.pk, actor=ANNA), JobStatus.PAUSED),
    "cancel": (lambda j: verbs.cancel(j.pk, actor=ANNA), JobStatus.CANCELLED),
    "force_fail": (
        lambda j: verbs.force_fail(j.pk, actor=ANNA, reason="enough"),
        JobStatus.FAILED,
    ),
}


@pytest.mark.parametrize("name", LEAVE)
def test_a_run_that_is_ended_in_the_middle_leaves_an_unknown_outcome(
    ctx: Context, name: str
) -> None:
    leave, status = LEAVE[name]
    action = _begun(ctx)

    leave(ctx.job)

    job, ended = fresh(ctx.job), _now(action)
    assert (job.status, ended.status) == (status, S.OUTCOME_UNKNOWN)
    assert (ended.lease_id, ended.ended_at is not None) == (None, True)
    [first, second] = JobEvent.objects.filter(job_id=job.pk).order_by("-pk")[:2]
    assert "action_outcome_unknown" in {first.kind, second.kind}
    xmin = "SELECT xmin::text FROM {} WHERE id = %s"
    with connection.cursor() as cursor:
        found = set()
        for table in ("buildqueue_buildjob", "buildqueue_jobaction"):
            pk = job.pk if table.endswith("buildjob") else action.pk
            cursor.execute(xmin.format(table), [pk])
            found.add(cursor.fetchone())
    if name != "pause":
        assert len(found) == 1, "not one transaction"
    if status == JobStatus.FAILED and name != "force_fail":
        assert job.error_code == "outcome_unknown"
        assert "Mail to Carl" in (job.error_msg or "")
        assert ("outcome_unknown", "failed") in story(job)
    verb = verbs.resume if status == JobStatus.PAUSED else verbs.retry
    assert _code(verb, job.pk, actor=ANNA) == "outcome_unknown"


def test_an_unknown_outcome_is_told_once_whoever_finds_it(
    ctx: Context, pager: None
) -> None:
    with run_of() as swept, run_of() as raised:
        swept_one = _begun(swept)
        taken_over(swept.job)
        raised_one = raised.propose("mail", MAIL, review=False)
        left = _begun(ctx)

        LEAVE["rescue"][0](ctx.job)
        actions.sweep()
        actions.sweep()
        with pytest.raises(OutcomeUnknown):
            raised.perform("mail", Provider(TimeoutError()))

    unknown = Notice.objects.filter(event="action.outcome_unknown")
    told_of = [notice.body["data"]["action"]["id"] for notice in unknown]
    expected = [str(action.pk) for action in (swept_one, raised_one, left)]
    assert sorted(told_of) == sorted(expected)


@pytest.mark.parametrize("name", ["rescue", "hand_back", "release"])
def test_a_run_that_ends_with_nothing_under_way_goes_on(
    ctx: Context, name: str
) -> None:
    ctx.propose("mail", MAIL, review=False)
    ctx.perform("mail", Provider({}))
    ctx.propose("letter", MAIL)

    LEAVE[name][0](ctx.job)

    assert fresh(ctx.job).status == JobStatus.PENDING
    statuses = dict(JobAction.objects.values_list("key", "status"))
    assert statuses == {"mail": "succeeded", "letter": "awaiting_review"}


def test_a_late_answer_of_a_revoked_run_changes_nothing(ctx: Context) -> None:
    action = ctx.propose("mail", MAIL, review=False)

    def send(_: JobAction) -> dict[str, Any]:
        elsewhere(verbs.cancel, ctx.job.pk, actor=ANNA)
        return {"id": "m1"}

    with pytest.raises(LostLeaseError):
        ctx.perform("mail", send)

    assert (_now(action).status, _now(action).receipt) == (S.OUTCOME_UNKNOWN, None)


def test_a_run_without_its_lease_begins_no_effect(ctx: Context) -> None:
    action = ctx.propose("mail", MAIL, review=False)
    provider = Provider({})
    taken_over(ctx.job)

    with pytest.raises(LostLeaseError):
        ctx.perform("mail", provider)
    with pytest.raises(LostLeaseError):
        ctx.propose("letter", MAIL)

    assert (provider.calls, _now(action).status) == (0, S.APPROVED)
    assert JobAction.objects.count() == 1


def test_the_sweep_finds_what_dead_runs_left_and_leaves_the_living_alone(
    committed: None,
) -> None:
    left = []
    for _ in range(3):
        with run_of() as ctx:
            left.append(_begun(ctx))
    alive = make_job(JobStatus.IN_PROGRESS)
    own = _make(alive, S.EXECUTING)
    # As if by another program: its transitions say so of themselves.
    gone = {"lease_id": None, "lease_until": None, "picked_at": None}
    BuildJob.objects.filter(pk=left[0].job_id).update(status="pending", **gone)
    BuildJob.objects.filter(pk=left[1].job_id).update(status="paused", **gone)
    taken_over(left[2].job)

    assert sum(race(3, lambda _: actions.sweep())) == 3
    assert actions.sweep() == 0

    assert {_now(action).status for action in left} == {S.OUTCOME_UNKNOWN}
    assert _now(own).status == S.EXECUTING
    events = JobEvent.objects.filter(kind="action_outcome_unknown")
    assert events.count() == 3
    assert recovery.repair_pairs() == 0


# -- what a reviewer saw -------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("content", '{"to": "everybody"}'),
        ("content_hash", "0" * 64),
        ("title", "Something else"),
        ("key", "other"),
        ("attempt", "9"),
        ("created_at", "2001-01-01"),
    ],
)
def test_what_was_reviewed_never_changes(ctx: Context, column: str, value: str) -> None:
    action = ctx.propose("mail", MAIL)

    with pytest.raises(DatabaseError, match="never changes"), connection.cursor() as c:
        c.execute(f"UPDATE buildqueue_jobaction SET {column} = %s", [value])

    assert _now(action).content == MAIL


def test_an_action_is_deleted_with_its_job_and_not_alone(ctx: Context) -> None:
    action = ctx.propose("mail", MAIL)

    with pytest.raises(DatabaseError, match="DELETE refused"), connection.cursor() as c:
        c.execute("DELETE FROM buildqueue_jobaction WHERE id = %s", [action.pk])
    assert _now(action)

    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM buildqueue_buildjob WHERE id = %s", [ctx.job.pk])
    assert not JobAction.objects.filter(pk=action.pk).exists()


@pytest.mark.parametrize("to", ACTION_FLOW)
def test_an_action_moves_along_the_flow_and_no_other_way(
    ctx: Context, to: ActionStatus
) -> None:
    for status in S:
        action = _make(ctx.job, status)
        values: dict[str, Any] = {}
        if to == S.EXECUTING:
            values = {"lease": ctx.lease_id, "started_at": timezone.now()}
        events = JobEvent.objects.filter(job_id=ctx.job.pk).count()

        if status in ACTION_FLOW[to]:
            assert actionflow.move(action, to, **values).status == to
            events += 1
        else:
            assert _code(actionflow.move, action, to, **values) == "already_decided"
            assert _now(action).status == status

        assert JobEvent.objects.filter(job_id=ctx.job.pk).count() == events


def test_a_status_that_does_not_exist_cannot_be_stored(ctx: Context) -> None:
    with pytest.raises(DatabaseError, match="chk_job_actions_status"):
        _make(ctx.job, "sent")


# -- a job that ends -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["cancel", "force_fail"])
def test_a_job_that_ends_cancels_what_nobody_has_decided(
    ctx: Context, name: str
) -> None:
    made = {status: _make(ctx.job, status) for status in set(S) - {S.EXECUTING}}

    LEAVE[name][0](ctx.job)

    after = {status: _now(action).status for status, action in made.items()}
    gone = {S.AWAITING_REVIEW: S.CANCELLED, S.APPROVED: S.CANCELLED}
    assert after == {status: gone.get(status, status) for status in made}
    assert _code(_approve, made[S.AWAITING_REVIEW]) == "already_decided"


def test_a_job_that_is_done_leaves_nobody_to_decide_on_what_nobody_will_do(
    ctx: Context,
) -> None:
    asked = ctx.propose("mail", MAIL)
    ctx.propose("letter", MAIL, review=False)
    ctx.perform("letter", Provider({}))

    _report(ctx, Done())

    assert fresh(ctx.job).status == JobStatus.DONE
    assert _now(asked).status == S.CANCELLED
    assert _code(_approve, asked) == "already_decided"


def test_a_cancelled_job_that_is_retried_asks_anew(ctx: Context) -> None:
    action = _waiting(ctx)
    _approve(action)
    verbs.cancel(ctx.job.pk, actor=ANNA)
    assert _now(action).status == S.CANCELLED

    verbs.retry(ctx.job.pk, actor=BERT)

    again = _now(action)
    assert (again.status, again.decided_by, again.decided_at) == (
        S.AWAITING_REVIEW,
        "",
        None,
    )
    assert again.expires_at is not None
    assert again.expires_at > timezone.now()
    assert ("action_reopened", "Mail to Carl") in story(ctx.job)


# -- races ---------------------------------------------------------------------------


def test_a_decision_and_the_wait_for_it_never_miss_each_other(committed: None) -> None:
    for _ in range(100):
        with run_of() as ctx:
            action = ctx.propose("mail", MAIL)

            def act(
                number: int, ctx: Context = ctx, action: JobAction = action
            ) -> None:
                if number:
                    _approve(action)
                else:
                    _report(ctx, WaitForApproval())

            race(2, act)

            assert fresh(ctx.job).status == JobStatus.PENDING
            assert _now(action).status == S.APPROVED


def test_a_decision_and_a_cancel_at_once_leave_nothing_to_be_done(
    committed: None,
) -> None:
    for _ in range(25):
        with run_of() as ctx:
            action = _waiting(ctx)

            def act(number: int, ctx: Context = ctx, action: JobAction = action) -> str:
                try:
                    if number:
                        return str(_approve(action).status)
                    return str(verbs.cancel(ctx.job.pk, actor=BERT).status)
                except Refused as refused:
                    return refused.code

            cancelled, decided = race(2, act)

            assert cancelled == "cancelled"
            assert decided in {"approved", "already_decided"}
            assert fresh(ctx.job).status == JobStatus.CANCELLED
            assert _now(action).status == S.CANCELLED
