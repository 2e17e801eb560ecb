"""Is exactly what is due and decided taken, by the database's clock alone?"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from buildqueue.models import BuildJob, JobAction
from buildqueue.queue import actions, claiming, enqueueing, leases, recovery, verbs
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import (
    Actor,
    Done,
    Outcome,
    Retry,
    Snooze,
    WaitForApproval,
)
from buildqueue.states import JobStatus
from tests.factories import make_job
from tests.host.jobs import Probe
from tests.host.models import Effect
from tests.support.decisions import make_action
from tests.support.jobs import fresh
from tests.support.turns import claim, holder, report, turn, turns

from .conftest import AddKind

pytestmark = pytest.mark.usefixtures("committed")

ANNA = Actor(label="anna", id="7")


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
