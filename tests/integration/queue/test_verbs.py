"""What may people do to a job, and what is left behind when they did?"""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.utils import timezone

from buildqueue.exceptions import InvalidTransition, Refused
from buildqueue.models import BuildJob, JobEvent, JobRun
from buildqueue.queue import claiming, recovery, transitions, verbs
from buildqueue.queue.outcomes import Actor, Cause
from buildqueue.states import JobStatus, RunOutcome
from tests.factories import make_job, make_run
from tests.support.notices import Notices

from .conftest import holder

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
