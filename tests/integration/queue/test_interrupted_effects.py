"""What becomes of an effect whose run ends in the middle of it, however it ends?"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from buildqueue.exceptions import LostLeaseError, OutcomeUnknown
from buildqueue.models import BuildJob, JobAction, JobEvent, Notice
from buildqueue.queue import actions, recovery, verbs
from buildqueue.queue.context import Context
from buildqueue.states import ActionStatus, JobStatus
from tests.factories import make_job
from tests.support.acting import (
    ANNA,
    LEAVE,
    MAIL,
    Provider,
    begun,
    code_of,
    fresh_action,
    make_mail,
)
from tests.support.attempts import elsewhere, run_of, taken_over
from tests.support.jobs import fresh, story
from tests.support.races import race

S = ActionStatus

pytestmark = pytest.mark.usefixtures("committed")


@pytest.mark.parametrize("name", LEAVE)
def test_a_run_that_is_ended_in_the_middle_leaves_an_unknown_outcome(
    ctx: Context, name: str
) -> None:
    leave, status = LEAVE[name]
    action = begun(ctx)

    leave(ctx.job)

    job, ended = fresh(ctx.job), fresh_action(action)
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
    assert code_of(verb, job.pk, actor=ANNA) == "outcome_unknown"


def test_an_unknown_outcome_is_told_once_whoever_finds_it(
    ctx: Context, pager: None
) -> None:
    with run_of() as swept, run_of() as raised:
        swept_one = begun(swept)
        taken_over(swept.job)
        raised_one = raised.propose("mail", MAIL, review=False)
        left = begun(ctx)

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

    assert (fresh_action(action).status, fresh_action(action).receipt) == (
        S.OUTCOME_UNKNOWN,
        None,
    )


def test_a_run_without_its_lease_begins_no_effect(ctx: Context) -> None:
    action = ctx.propose("mail", MAIL, review=False)
    provider = Provider({})
    taken_over(ctx.job)

    with pytest.raises(LostLeaseError):
        ctx.perform("mail", provider)
    with pytest.raises(LostLeaseError):
        ctx.propose("letter", MAIL)

    assert (provider.calls, fresh_action(action).status) == (0, S.APPROVED)
    assert JobAction.objects.count() == 1


def test_the_sweep_finds_what_dead_runs_left_and_leaves_the_living_alone(
    committed: None,
) -> None:
    left = []
    for _ in range(3):
        with run_of() as ctx:
            left.append(begun(ctx))
    alive = make_job(JobStatus.IN_PROGRESS)
    own = make_mail(alive, S.EXECUTING)
    # As if by another program: its transitions say so of themselves.
    gone = {"lease_id": None, "lease_until": None, "picked_at": None}
    BuildJob.objects.filter(pk=left[0].job_id).update(status="pending", **gone)
    BuildJob.objects.filter(pk=left[1].job_id).update(status="paused", **gone)
    taken_over(left[2].job)

    assert sum(race(3, lambda _: actions.sweep())) == 3
    assert actions.sweep() == 0

    assert {fresh_action(action).status for action in left} == {S.OUTCOME_UNKNOWN}
    assert fresh_action(own).status == S.EXECUTING
    events = JobEvent.objects.filter(kind="action_outcome_unknown")
    assert events.count() == 3
    assert recovery.repair_pairs() == 0
