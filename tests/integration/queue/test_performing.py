"""Is an action performed once at most, only when approved, and is its receipt kept?"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection
from django.db import transaction as transactions
from django.utils import timezone

from buildqueue.exceptions import NotDone, PermanentError, Rejected
from buildqueue.models import BuildJob, JobAction
from buildqueue.queue import recovery, transitions, verbs
from buildqueue.queue.context import Context
from buildqueue.states import ActionStatus, JobStatus
from tests.support.acting import ANNA, MAIL, Provider, fresh_action
from tests.support.attempts import elsewhere, next_attempt, run_again, run_of
from tests.support.jobs import story
from tests.support.races import race

S = ActionStatus

pytestmark = pytest.mark.usefixtures("committed")


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
        seen = elsewhere(fresh_action, action)
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

    job = run_again(ctx.job, lambda run: run.perform("mail", provider))

    assert job.status == status
    assert (fresh_action(action).status, fresh_action(action).error_msg) == (
        S.FAILED,
        str(error),
    )
    if status == JobStatus.SCHEDULED:
        BuildJob.objects.filter(pk=job.pk).update(due_at=timezone.now())
        transitions.promote_due()
    else:
        verbs.retry(job.pk, actor=ANNA)
    assert run_again(job, lambda run: run.perform("mail", provider)).status == "done"
    assert (fresh_action(action).status, fresh_action(action).error_msg) == (
        S.SUCCEEDED,
        None,
    )
    assert provider.calls == 2


def test_effects_that_threads_perform_at_once_do_not_wait_for_each_other(
    ctx: Context,
) -> None:
    keys = [str(number) for number in range(6)]
    for key in keys:
        ctx.propose(key, MAIL, review=False)

    race(6, lambda number: ctx.perform(keys[number], Provider({"id": number})))

    receipts = dict(JobAction.objects.values_list("key", "receipt"))
    assert receipts == {key: {"id": int(key)} for key in keys}


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
    assert fresh_action(action).status == S.SUCCEEDED
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
