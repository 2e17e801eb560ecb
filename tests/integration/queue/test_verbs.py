"""What may people do to a job, and what is left behind when they did?"""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from buildqueue.exceptions import InvalidOption, InvalidTransition, Refused
from buildqueue.models import BuildJob, JobEvent, JobRun
from buildqueue.queue import actions, claiming, recovery, transitions, verbs
from buildqueue.queue.context import Context
from buildqueue.queue.context.fencing import fenced_job_first
from buildqueue.queue.outcomes import Actor, Cause
from buildqueue.states import (
    FINAL,
    OPEN,
    UNCLAIMED,
    ActionStatus,
    JobStatus,
    RunOutcome,
)
from tests.factories import make_job, make_run
from tests.support.decisions import make_action
from tests.support.jobs import fresh
from tests.support.notices import Notices
from tests.support.races import race, somebody_waits
from tests.support.turns import holder
from tests.support.waiting import wait_until

ANNA = Actor(label="anna", id="7")
ENDED = Cause(outcome=RunOutcome.CRASHED, code="killed", message="it was ended")
VALID_FROM = {
    "cancel": JobStatus.PENDING,
    "release": JobStatus.IN_PROGRESS,
    "force_fail": JobStatus.SCHEDULED,
    "retry": JobStatus.CANCELLED,
    "pause": JobStatus.WAITING_APPROVAL,
    "resume": JobStatus.PAUSED,
}


def _call(name: str, job: BuildJob, **options: Any) -> BuildJob:
    return verbs.VERBS[name][0](job.pk, actor=ANNA, **options)


def _claim() -> list[BuildJob]:
    return claiming.claim(claiming.Scope(), holder())


@pytest.mark.django_db
@pytest.mark.parametrize("name", sorted(verbs.VERBS))
def test_a_verb_records_who_and_why(name: str) -> None:
    job = make_job(VALID_FROM[name])

    _call(name, job, reason="because of that")

    event = JobEvent.objects.get(job_id=job.pk)
    assert (event.actor, event.actor_id) == ("anna", "7")
    assert event.reason == "because of that"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "code"), [("cancel", "cancelled"), ("force_fail", "force_failed")]
)
def test_the_reason_stands_on_the_job_that_a_person_ended(name: str, code: str) -> None:
    ended = _call(name, make_job(), reason="no longer needed")

    assert (ended.error_code, ended.error_msg) == (code, "no longer needed")


@pytest.mark.django_db
def test_a_job_cancelled_without_a_word_says_at_least_that() -> None:
    assert _call("cancel", make_job()).error_msg == "cancelled"


@pytest.mark.django_db
@pytest.mark.parametrize("reason", ["", "  \n"])
@pytest.mark.parametrize("name", ["release", "force_fail"])
def test_what_is_done_to_a_run_from_outside_needs_a_reason(
    name: str, reason: str
) -> None:
    job = make_job(JobStatus.IN_PROGRESS)

    with pytest.raises(Refused) as refused:
        _call(name, job, reason=reason)

    assert refused.value.code == "reason_required"
    assert BuildJob.objects.get().lease_id == job.lease_id
    assert not JobEvent.objects.exists()


@pytest.mark.parametrize("name", ["cancel", "pause", "release", "force_fail"])
def test_a_verb_on_a_running_job_takes_the_lease_and_tells_the_worker(
    name: str, notices: Notices
) -> None:
    job = make_job(JobStatus.IN_PROGRESS)

    after = _call(name, job, reason="it hangs")

    assert (after.lease_id, after.lease_until, after.worker) == (None, None, None)
    assert f"r:{job.worker}" in notices.heard()
    run = JobRun.objects.get(pk=job.lease_id)
    assert run.ended_at is None
    assert run.expires_at == job.lease_until


def test_the_end_that_a_worker_reports_does_not_tell_it_of_itself(
    notices: Notices,
) -> None:
    from .test_endings import _finish

    job = make_job(JobStatus.IN_PROGRESS)

    _finish(job)

    assert notices.heard() == []


@pytest.mark.django_db
def test_a_released_job_waits_until_its_old_process_is_known_dead() -> None:
    make_job()
    [claimed] = _claim()
    slot = claimed.slot
    assert slot is not None

    verbs.release(claimed.pk, actor=ANNA, reason="it hangs")
    assert _claim() == []
    recovery.end_revoked_runs(recovery.runs_of_slot(slot), ENDED)
    [again] = _claim()

    assert again.pk == claimed.pk
    assert (again.attempt, again.failures, again.crashes) == (2, 0, 0)
    first = JobRun.objects.get(pk=claimed.lease_id)
    assert first.outcome == RunOutcome.INTERRUPTED


@pytest.mark.django_db
def test_a_revoked_run_counts_as_dead_at_its_moment_at_the_latest() -> None:
    make_job()
    [claimed] = _claim()
    verbs.cancel(claimed.pk, actor=ANNA)

    assert JobRun.objects.get().ended_at is None
    recovery.rescue_expired()
    assert JobRun.objects.get().ended_at is None
    JobRun.objects.update(expires_at=timezone.now())
    recovery.rescue_expired()

    run = JobRun.objects.get()
    assert run.ended_at is not None
    assert run.outcome == RunOutcome.INTERRUPTED


@pytest.mark.django_db
def test_a_process_whose_handler_returned_too_late_ends_its_own_run() -> None:
    make_job()
    [claimed] = _claim()
    lease = claimed.lease_id
    assert lease is not None

    assert not recovery.end_own_run(lease)  # still its holder: the report ends it
    verbs.release(claimed.pk, actor=ANNA, reason="it hangs")
    assert recovery.end_own_run(lease)
    assert not recovery.end_own_run(lease)

    assert JobRun.objects.get().outcome == RunOutcome.INTERRUPTED
    assert [job.pk for job in _claim()] == [claimed.pk]


def test_the_end_of_a_revoked_run_wakes_who_waits_for_it(notices: Notices) -> None:
    job = make_job(JobStatus.IN_PROGRESS, queue="slow")
    verbs.release(job.pk, actor=ANNA, reason="it hangs")
    notices.heard()

    assert job.slot is not None
    recovery.end_revoked_runs(recovery.runs_of_slot(job.slot), ENDED)

    assert notices.heard() == ["q:slow"]


@pytest.mark.django_db
def test_a_retry_gives_one_more_try_than_was_used_and_keeps_the_history() -> None:
    job = make_job(
        JobStatus.FAILED,
        attempt=3,
        failures=2,
        crashes=1,
        max_attempts=3,
        error_code="max_attempts_exhausted",
        error_msg="max attempts exceeded",
        result={"old": True},
    )
    make_run(job, outcome="failed", ended_at=timezone.now(), attempt=3)

    again = verbs.retry(job.pk, actor=ANNA)

    assert again.status == JobStatus.PENDING
    assert (again.attempt, again.failures, again.crashes) == (3, 2, 1)
    assert again.max_attempts == 4
    assert (again.error_code, again.error_msg, again.result) == (None, None, None)
    assert JobRun.objects.filter(job=job).count() == 1
    [claimed] = _claim()
    assert claimed.attempt == 4


@pytest.mark.django_db
def test_a_retry_never_lowers_an_allowance() -> None:
    job = make_job(JobStatus.CANCELLED, failures=1, max_attempts=10)

    assert verbs.retry(job.pk, actor=ANNA).max_attempts == 10


@pytest.mark.django_db
def test_a_retry_does_not_take_a_dedupe_key_that_an_open_job_holds() -> None:
    ended = make_job(JobStatus.FAILED, dedupe_key="nightly")
    make_job(dedupe_key="nightly")

    with pytest.raises(Refused, match="dedupe key") as refused:
        verbs.retry(ended.pk, actor=ANNA)

    assert (refused.value.code, refused.value.status) == ("duplicate_job", 409)
    assert BuildJob.objects.get(pk=ended.pk).status == JobStatus.FAILED


@pytest.mark.django_db
def test_a_verb_does_not_pass_twice() -> None:
    job = make_job()
    verbs.cancel(job.pk, actor=ANNA)

    with pytest.raises(InvalidTransition, match="it is cancelled"):
        verbs.cancel(job.pk, actor=ANNA)

    assert JobEvent.objects.filter(job_id=job.pk, kind="cancel").count() == 1


@pytest.mark.django_db
def test_a_guard_that_does_not_hold_changes_nothing() -> None:
    from django.db.models import Q

    job = make_job(JobStatus.IN_PROGRESS)
    change = recovery.rescue_change(job, ENDED)

    with pytest.raises(InvalidTransition):
        transitions.apply(job.pk, change, guard=Q(lease_id=uuid.uuid4()))

    assert BuildJob.objects.get(pk=job.pk).lease_id == job.lease_id


# -- wrong statuses and double submits -----------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "status"),
    [
        (name, status)
        for name, (_, transition, _p) in sorted(verbs.VERBS.items())
        for status in JobStatus
        if not transition.allowed_from(status)
    ],
)
def test_a_verb_on_a_wrong_status_says_which_it_found(name: str, status: str) -> None:
    job = make_job(status)

    with pytest.raises(InvalidTransition) as refused:
        _call(name, job, reason="because")

    assert (refused.value.code, refused.value.found) == ("wrong_status", status)
    assert not JobEvent.objects.exists()


@pytest.mark.parametrize("name", sorted(verbs.VERBS))
def test_of_two_at_once_who_want_the_same_one_gets_it(
    committed: None, name: str
) -> None:
    for _ in range(5):
        job = make_job(VALID_FROM[name])

        def act(_: int, job: BuildJob = job) -> bool:
            try:
                _call(name, job, reason="because")
            except InvalidTransition:
                return False
            return True

        assert sorted(race(2, act)) == [False, True]
        assert JobEvent.objects.filter(job_id=job.pk, kind=name).count() == 1


# -- many at once --------------------------------------------------------------------


@pytest.mark.django_db
def test_of_many_that_are_retried_each_is_answered_for() -> None:
    failed, cancelled = make_job(JobStatus.FAILED), make_job(JobStatus.CANCELLED)
    running = make_job(JobStatus.IN_PROGRESS)
    taken = make_job(JobStatus.FAILED, dedupe_key="k")
    make_job(dedupe_key="k")
    unknown = make_job(JobStatus.FAILED)
    make_action(unknown, "outcome_unknown")
    missing = uuid.uuid4()
    asked = [failed.pk, running.pk, missing, taken.pk, unknown.pk, cancelled.pk]

    answers = verbs.retry_many(asked, actor=ANNA, reason="the power is back")

    assert [(a.job_id, a.code) for a in answers] == [
        (failed.pk, ""),
        (running.pk, "wrong_status"),
        (missing, "wrong_status"),
        (taken.pk, "duplicate_job"),
        (unknown.pk, "outcome_unknown"),
        (cancelled.pk, ""),
    ]
    assert all(bool(a.message) == bool(a.code) for a in answers)
    assert fresh(failed).status == fresh(cancelled).status == JobStatus.PENDING
    assert fresh(unknown).status == JobStatus.FAILED
    told = JobEvent.objects.filter(kind="retry")
    assert {(e.actor, e.reason) for e in told} == {("anna", "the power is back")}
    assert told.count() == 2


@pytest.mark.django_db
@pytest.mark.parametrize("count", [1, 200])
def test_up_to_two_hundred_are_retried(count: int) -> None:
    jobs = [make_job(JobStatus.FAILED) for _ in range(count)]

    answers = verbs.retry_many([job.pk for job in jobs], actor=ANNA)

    assert [a.code for a in answers] == [""] * count
    assert BuildJob.objects.filter(status=JobStatus.PENDING).count() == count


@pytest.mark.django_db
@pytest.mark.parametrize("count", [0, 201])
def test_none_and_more_than_two_hundred_are_refused_as_a_whole(count: int) -> None:
    job = make_job(JobStatus.FAILED)

    with pytest.raises(InvalidOption, match="1 to 200") as refused:
        verbs.retry_many([job.pk] * count, actor=ANNA)

    assert refused.value.code == "invalid_parameter"
    assert fresh(job).status == JobStatus.FAILED


@pytest.mark.django_db
def test_a_job_that_is_named_twice_is_retried_once() -> None:
    job = make_job(JobStatus.FAILED)

    [answer] = verbs.retry_many([job.pk, job.pk], actor=ANNA)

    assert answer.code == ""


# -- how urgent, and when ------------------------------------------------------------


@pytest.mark.django_db
def test_a_job_made_urgent_overtakes_the_others() -> None:
    make_job()
    late = make_job()

    after = verbs.change_priority(late.pk, priority=100, actor=ANNA, reason="VIP")

    assert after.priority == 100
    assert [job.pk for job in _claim()] == [late.pk]
    event = JobEvent.objects.get(kind="priority_changed")
    assert event.detail == {"from": 0, "to": 100}
    assert (event.actor, event.reason) == ("anna", "VIP")


@pytest.mark.django_db
@pytest.mark.parametrize("priority", [-101, 101, 1.5, "high", None])
def test_a_priority_out_of_its_range_is_refused(priority: Any) -> None:
    job = make_job()

    with pytest.raises(InvalidOption, match="from -100 to 100") as refused:
        verbs.change_priority(job.pk, priority=priority, actor=ANNA)

    assert set(refused.value.fields) == {"priority"}
    assert fresh(job).priority == 0
    assert not JobEvent.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("status", sorted(OPEN))
def test_the_priority_of_any_open_job_can_be_changed(status: str) -> None:
    job = make_job(status)

    verbs.change_priority(job.pk, priority=-100, actor=ANNA)

    after = fresh(job)
    assert (after.priority, after.status, after.lease_id) == (
        -100,
        status,
        job.lease_id,
    )


@pytest.mark.django_db
@pytest.mark.parametrize("status", sorted(FINAL))
def test_the_priority_of_an_ended_job_stays(status: str) -> None:
    job = make_job(status)

    with pytest.raises(InvalidTransition) as refused:
        verbs.change_priority(job.pk, priority=1, actor=ANNA)

    assert refused.value.found == status


def test_a_pending_job_made_urgent_is_told_to_the_workers(notices: Notices) -> None:
    job = make_job(queue="slow")

    verbs.change_priority(job.pk, priority=1, actor=ANNA)

    assert notices.heard() == ["q:slow"]


@pytest.mark.django_db
@pytest.mark.parametrize("status", sorted(UNCLAIMED))
@pytest.mark.parametrize(
    ("hours", "target"), [(-1, JobStatus.PENDING), (1, JobStatus.SCHEDULED)]
)
def test_a_job_that_has_not_begun_can_be_put_off_or_brought_forward(
    status: str, hours: int, target: str
) -> None:
    job = make_job(status, due_at=timezone.now() + timedelta(minutes=5))
    due = timezone.now() + timedelta(hours=hours)

    after = verbs.change_due(job.pk, due_at=due, actor=ANNA, reason="later")

    assert (after.status, after.due_at) == (target, due)
    assert bool(_claim()) == (target == JobStatus.PENDING)
    event = JobEvent.objects.filter(job_id=job.pk).earliest("pk")
    assert (event.kind, event.title, event.reason) == ("reschedule", target, "later")


@pytest.mark.django_db
@pytest.mark.parametrize("status", sorted(set(JobStatus) - UNCLAIMED))
def test_a_job_that_has_begun_keeps_its_due_time(status: str) -> None:
    job = make_job(status)

    with pytest.raises(InvalidTransition) as refused:
        verbs.change_due(job.pk, due_at=timezone.now(), actor=ANNA)

    assert refused.value.found == status


@pytest.mark.django_db
@pytest.mark.parametrize(
    "due",
    [
        datetime(2030, 1, 1),  # without a zone
        datetime(1969, 12, 31, tzinfo=UTC),
        datetime(9500, 1, 1, tzinfo=UTC),
    ],
    ids=str,
)
def test_a_due_time_that_nobody_could_tell_is_refused(due: datetime) -> None:
    job = make_job()

    with pytest.raises(InvalidOption, match="due_at must ") as refused:
        verbs.change_due(job.pk, due_at=due, actor=ANNA)

    assert set(refused.value.fields) == {"due_at"}
    assert fresh(job).due_at == job.due_at


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("change", "values"),
    [
        (verbs.change_priority, {"priority": 1}),
        (verbs.change_due, {"due_at": datetime(2030, 1, 1, tzinfo=UTC)}),
    ],
)
def test_a_job_that_is_not_there_has_neither_priority_nor_due_time(
    change: verbs.Verb, values: dict[str, Any]
) -> None:
    with pytest.raises(InvalidTransition, match="does not exist") as refused:
        change(uuid.uuid4(), actor=ANNA, **values)

    assert refused.value.found is None


# -- outside effects -----------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["retry", "resume"])
def test_a_job_with_an_effect_of_unknown_outcome_does_not_run_again(name: str) -> None:
    job = make_job(VALID_FROM[name])
    make_action(job, "outcome_unknown")
    before = BuildJob.objects.values().get()

    with pytest.raises(Refused, match="settle it first") as refused:
        _call(name, job)

    assert (refused.value.code, refused.value.status) == ("outcome_unknown", 409)
    assert BuildJob.objects.values().get() == before
    assert not JobEvent.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("reason", ["nul \x00", "half \ud800 a pair", "x" * 50_000])
def test_any_reason_is_kept_as_well_as_can_be(reason: str) -> None:
    for name in sorted(verbs.VERBS):
        _call(name, make_job(VALID_FROM[name]), reason=reason)

    assert JobEvent.objects.count() == len(verbs.VERBS)


@pytest.mark.parametrize("name", ["cancel", "pause", "force_fail", "release"])
@pytest.mark.parametrize("moment", ["beginning", "ending"])
def test_a_verb_in_the_very_moment_of_an_effect_does_not_deadlock(
    committed: None, name: str, moment: str
) -> None:
    """The run has moved its action and not committed yet; the verb comes then."""
    job = make_job(JobStatus.IN_PROGRESS)
    lease = job.lease_id
    assert lease is not None
    before = "approved" if moment == "beginning" else "executing"
    action = make_action(job, before)

    def verb() -> BuildJob:
        try:
            return _call(name, job, reason="because")
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as threads:
        with fenced_job_first(Context(job=job, lease_id=lease)):
            if moment == "beginning":
                actions.begin(action, lease)
            else:
                done = ActionStatus.SUCCEEDED
                actions.end(action, done, lease, receipt={}, error="")
            asked = threads.submit(verb)
            wait_until(lambda: asked.done() or somebody_waits())
        after = asked.result(60)

    action.refresh_from_db()
    ended = "outcome_unknown" if moment == "beginning" else "succeeded"
    assert action.status == ended
    assert after.status != JobStatus.IN_PROGRESS


# -- whatever a host may pass ----------------------------------------------------------

MORE: dict[str, Any] = {
    "change_priority": {"priority": 1},
    "change_due": {"due_at": datetime(2030, 1, 1, tzinfo=UTC)},
    "answer": {"values": {}},
}
ALL: dict[str, Any] = {name: verb for name, (verb, _, _) in verbs.VERBS.items()} | {
    name: getattr(verbs, name) for name in MORE
}


@pytest.mark.django_db
@pytest.mark.parametrize("name", sorted(ALL))
@pytest.mark.parametrize("given", ["nope", None, "", 5, ["a"], "a\x00"], ids=repr)
def test_what_is_no_id_is_the_id_of_no_job(name: str, given: Any) -> None:
    with pytest.raises(InvalidTransition) as refused:
        ALL[name](given, actor=ANNA, reason="why", **MORE.get(name, {}))

    assert (refused.value.found, refused.value.job_id) == (None, given)


@pytest.mark.django_db
@pytest.mark.parametrize("name", sorted(set(ALL) - {"answer"}))
def test_a_reason_that_is_no_text_is_refused_and_none_is_an_empty_one(
    name: str,
) -> None:
    valid = VALID_FROM.get(name, JobStatus.SCHEDULED)
    job = make_job(valid)
    with pytest.raises(InvalidOption, match=r"^reason must be text"):
        ALL[name](job.pk, actor=ANNA, reason=5, **MORE.get(name, {}))
    assert fresh(job).status == valid

    if name in ("release", "force_fail"):
        with pytest.raises(Refused) as refused:
            ALL[name](job.pk, actor=ANNA, reason=None)
        assert refused.value.code == "reason_required"
    else:
        ALL[name](job.pk, actor=ANNA, reason=None, **MORE.get(name, {}))
        assert JobEvent.objects.get(job_id=job.pk).reason == ""


@pytest.mark.django_db
@pytest.mark.parametrize(
    "value", [True, 1.5, "5", None, pytest.param(10**5000, id="huge")]
)
def test_a_priority_that_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(InvalidOption, match=r"^priority must"):
        verbs.change_priority(make_job().pk, priority=value, actor=ANNA)


@pytest.mark.django_db
@pytest.mark.parametrize("value", ["x", None, 5, datetime(2030, 1, 1)])
def test_a_due_time_that_is_no_moment_is_refused(value: Any) -> None:
    with pytest.raises(InvalidOption, match=r"^due_at must"):
        verbs.change_due(make_job().pk, due_at=value, actor=ANNA)


@pytest.mark.django_db
def test_decisions_take_no_other_ids_reasons_and_receipts() -> None:
    action = make_action()
    for given in ("nope", None, 5, ["a"]):
        with pytest.raises(Refused) as refused:
            actions.approve(given, content_hash="x", actor=ANNA)
        assert refused.value.code == "not_found"
    for reason in (5, ["a"]):
        with pytest.raises(InvalidOption, match=r"^reason must"):
            actions.deny(action.pk, content_hash="x", actor=ANNA, reason=reason)
        with pytest.raises(InvalidOption, match=r"^reason must"):
            actions.approve(action.pk, content_hash="x", actor=ANNA, reason=reason)
    for receipt in ([1], {"a": object()}, {"a": float("nan")}):
        with pytest.raises(InvalidOption, match=r"^receipt cannot be stored"):
            actions.settle(
                action.pk, happened=True, actor=ANNA, reason="r", receipt=receipt
            )
