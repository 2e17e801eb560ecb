"""When is a run over that a person took the job from, and who hears of it?"""

from __future__ import annotations

import pytest
from django.utils import timezone

from buildqueue.models import JobRun
from buildqueue.queue import recovery, verbs
from buildqueue.queue.outcomes import Actor, Cause
from buildqueue.states import JobStatus, RunOutcome
from tests.factories import make_job
from tests.support.notices import Notices
from tests.support.turns import claims

ANNA = Actor(label="anna", id="7")
ENDED = Cause(outcome=RunOutcome.CRASHED, code="killed", message="it was ended")


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
    [claimed] = claims()
    slot = claimed.slot
    assert slot is not None

    verbs.release(claimed.pk, actor=ANNA, reason="it hangs")
    assert claims() == []
    recovery.end_revoked_runs(recovery.runs_of_slot(slot), ENDED)
    [again] = claims()

    assert again.pk == claimed.pk
    assert (again.attempt, again.failures, again.crashes) == (2, 0, 0)
    first = JobRun.objects.get(pk=claimed.lease_id)
    assert first.outcome == RunOutcome.INTERRUPTED


@pytest.mark.django_db
def test_a_revoked_run_counts_as_dead_at_its_moment_at_the_latest() -> None:
    make_job()
    [claimed] = claims()
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
    [claimed] = claims()
    lease = claimed.lease_id
    assert lease is not None

    assert not recovery.end_own_run(lease)  # still its holder: the report ends it
    verbs.release(claimed.pk, actor=ANNA, reason="it hangs")
    assert recovery.end_own_run(lease)
    assert not recovery.end_own_run(lease)

    assert JobRun.objects.get().outcome == RunOutcome.INTERRUPTED
    assert [job.pk for job in claims()] == [claimed.pk]


def test_the_end_of_a_revoked_run_wakes_who_waits_for_it(notices: Notices) -> None:
    job = make_job(JobStatus.IN_PROGRESS, queue="slow")
    verbs.release(job.pk, actor=ANNA, reason="it hangs")
    notices.heard()

    assert job.slot is not None
    recovery.end_revoked_runs(recovery.runs_of_slot(job.slot), ENDED)

    assert notices.heard() == ["q:slow"]
