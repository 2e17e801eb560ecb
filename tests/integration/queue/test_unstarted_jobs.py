"""What does it cost a job that the process which has claimed it dies?"""

from __future__ import annotations

import uuid

import pytest

from buildqueue.models import BuildJob, JobEvent, JobRun
from buildqueue.queue import recovery
from buildqueue.queue.outcomes import Cause
from buildqueue.states import JobStatus, RunOutcome
from tests.factories import make_job, make_run

pytestmark = pytest.mark.django_db

CRASH = Cause(
    outcome=RunOutcome.CRASHED,
    code="killed_by_signal",
    message="its process was ended by SIGKILL",
    exit_signal=9,
)


def _after_death(job: BuildJob, *, started: uuid.UUID | None) -> BuildJob:
    assert job.slot is not None
    assert recovery.rescue_slot(job.slot, CRASH, started=started) == 1
    return BuildJob.objects.get(pk=job.pk)


def test_a_job_that_was_not_started_goes_back_free() -> None:
    job = make_job(JobStatus.IN_PROGRESS, max_attempts=1)
    after = _after_death(job, started=None)
    told = (after.status, after.failures, after.crashes, after.error_code)
    assert told == (JobStatus.PENDING, 0, 0, None)
    assert job.lease_id is not None
    run = JobRun.objects.get(pk=job.lease_id)
    assert (run.outcome, run.exit_signal) == (RunOutcome.RELEASED, 9)
    event = JobEvent.objects.get(job_id=job.pk)
    assert event.kind == "hand_back"
    assert recovery.rescue_slot(job.slot or uuid.uuid4(), CRASH, started=None) == 0


def test_only_the_job_that_was_started_pays_for_its_slot() -> None:
    started = make_job(JobStatus.IN_PROGRESS)
    other = make_job(JobStatus.IN_PROGRESS, slot=started.slot)
    assert started.slot is not None
    lease = started.lease_id
    assert recovery.rescue_slot(started.slot, CRASH, started=lease) == 2
    crashes = BuildJob.objects.values_list("pk", "crashes")
    assert dict(crashes) == {started.pk: 1, other.pk: 0}


def test_an_earlier_run_that_was_started_does_not_charge_the_next_job() -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    assert _after_death(job, started=uuid.uuid4()).crashes == 0


def test_a_job_that_kills_every_process_before_its_start_ends() -> None:
    job = make_job(JobStatus.IN_PROGRESS, max_attempts=3)
    claims = 1
    while (after := _after_death(job, started=None)).status != JobStatus.FAILED:
        claims += 1
        assert claims < 50
        fresh = {"lease_id": uuid.uuid4(), "slot": uuid.uuid4(), "attempt": claims}
        claimed = {"status": JobStatus.IN_PROGRESS, "worker": uuid.uuid4(), **fresh}
        times = {"lease_until": job.lease_until, "picked_at": job.picked_at}
        BuildJob.objects.filter(pk=job.pk).update(**claimed, **times)
        job = BuildJob.objects.get(pk=job.pk)
        make_run(job)
    assert (after.crashes, claims) == (3, 10 + 3)
    assert after.error_code == "max_attempts_exhausted"
