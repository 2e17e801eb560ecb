"""Does an action stay what was reviewed, move along its flow only, and end with its job?"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.utils import timezone

from buildqueue.models import JobAction, JobEvent
from buildqueue.queue import verbs
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import Done
from buildqueue.queue.transitions import actionflow
from buildqueue.states import ACTION_FLOW, ActionStatus, JobStatus
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
from tests.support.jobs import fresh, story
from tests.support.turns import report

S = ActionStatus

pytestmark = pytest.mark.usefixtures("committed")


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

    assert fresh_action(action).content == MAIL


def test_an_action_is_deleted_with_its_job_and_not_alone(ctx: Context) -> None:
    action = ctx.propose("mail", MAIL)

    with pytest.raises(DatabaseError, match="DELETE refused"), connection.cursor() as c:
        c.execute("DELETE FROM buildqueue_jobaction WHERE id = %s", [action.pk])
    assert fresh_action(action)

    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM buildqueue_buildjob WHERE id = %s", [ctx.job.pk])
    assert not JobAction.objects.filter(pk=action.pk).exists()


@pytest.mark.parametrize("to", ACTION_FLOW)
def test_an_action_moves_along_the_flow_and_no_other_way(
    ctx: Context, to: ActionStatus
) -> None:
    for status in S:
        action = make_mail(ctx.job, status)
        values: dict[str, Any] = {}
        if to == S.EXECUTING:
            values = {"lease": ctx.lease_id, "started_at": timezone.now()}
        events = JobEvent.objects.filter(job_id=ctx.job.pk).count()

        if status in ACTION_FLOW[to]:
            assert actionflow.move(action, to, **values).status == to
            events += 1
        else:
            assert code_of(actionflow.move, action, to, **values) == "already_decided"
            assert fresh_action(action).status == status

        assert JobEvent.objects.filter(job_id=ctx.job.pk).count() == events


def test_a_status_that_does_not_exist_cannot_be_stored(ctx: Context) -> None:
    with pytest.raises(DatabaseError, match="chk_job_actions_status"):
        make_mail(ctx.job, "sent")


# -- a job that ends -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["cancel", "force_fail"])
def test_a_job_that_ends_cancels_what_nobody_has_decided(
    ctx: Context, name: str
) -> None:
    made = {status: make_mail(ctx.job, status) for status in set(S) - {S.EXECUTING}}

    LEAVE[name][0](ctx.job)

    after = {status: fresh_action(action).status for status, action in made.items()}
    gone = {S.AWAITING_REVIEW: S.CANCELLED, S.APPROVED: S.CANCELLED}
    assert after == {status: gone.get(status, status) for status in made}
    assert code_of(approve, made[S.AWAITING_REVIEW]) == "already_decided"


def test_a_job_that_is_done_leaves_nobody_to_decide_on_what_nobody_will_do(
    ctx: Context,
) -> None:
    asked = ctx.propose("mail", MAIL)
    ctx.propose("letter", MAIL, review=False)
    ctx.perform("letter", Provider({}))

    report(ctx.job, Done())

    assert fresh(ctx.job).status == JobStatus.DONE
    assert fresh_action(asked).status == S.CANCELLED
    assert code_of(approve, asked) == "already_decided"


def test_a_cancelled_job_that_is_retried_asks_anew(ctx: Context) -> None:
    action = waiting(ctx)
    approve(action)
    verbs.cancel(ctx.job.pk, actor=ANNA)
    assert fresh_action(action).status == S.CANCELLED

    verbs.retry(ctx.job.pk, actor=BERT)

    again = fresh_action(action)
    assert (again.status, again.decided_by, again.decided_at) == (
        S.AWAITING_REVIEW,
        "",
        None,
    )
    assert again.expires_at is not None
    assert again.expires_at > timezone.now()
    assert ("action_reopened", "Mail to Carl") in story(ctx.job)
