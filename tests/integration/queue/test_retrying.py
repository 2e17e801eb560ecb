"""What does a retry give a job and keep of it, and is each of many answered for?"""

from __future__ import annotations

import uuid

import pytest
from django.utils import timezone

from buildqueue.exceptions import InvalidOption, Refused
from buildqueue.models import BuildJob, JobEvent, JobRun
from buildqueue.queue import verbs
from buildqueue.queue.outcomes import Actor
from buildqueue.states import JobStatus
from tests.factories import make_job, make_run
from tests.support.decisions import make_action
from tests.support.jobs import fresh
from tests.support.turns import claims

ANNA = Actor(label="anna", id="7")


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
    [claimed] = claims()
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
