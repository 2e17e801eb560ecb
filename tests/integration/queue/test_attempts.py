"""Is each attempt kept with how it ended, and how many deaths does a job get?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from buildqueue.exceptions import LostLeaseError
from buildqueue.models import BuildJob, JobRun
from buildqueue.queue import recovery, verbs
from buildqueue.queue.outcomes import Actor, Cause, Done, Fail, Outcome, Retry, Snooze
from buildqueue.states import JobStatus, RunOutcome
from buildqueue.worker import runner
from tests.factories import make_job
from tests.support.attempts import let_lease_end
from tests.support.jobs import fresh, kinds
from tests.support.turns import claim, report

from .conftest import AddKind

pytestmark = pytest.mark.usefixtures("committed")

ANNA = Actor(label="anna", id="7")
DIED = Cause(
    outcome=RunOutcome.CRASHED,
    code="killed_by_signal",
    message="killed by SIGKILL",
    exit_signal=9,
)


# -- runs ----------------------------------------------------------------------------


def _told(outcome: Outcome) -> Callable[[BuildJob], object]:
    return lambda job: report(job, outcome)


def _lost(job: BuildJob) -> None:
    let_lease_end(job)
    recovery.rescue_expired()


def _killed(job: BuildJob) -> None:
    assert job.slot is not None
    recovery.rescue_slot(job.slot, DIED, started=job.lease_id)


def _aborted(job: BuildJob) -> None:
    verbs.cancel(job.pk, actor=ANNA)
    assert job.slot is not None
    recovery.rescue_slot(job.slot, DIED, started=job.lease_id)


@pytest.mark.parametrize(
    ("end", "outcome", "status"),
    [
        (_told(Done()), "succeeded", "done"),
        (_told(Fail(reason="no")), "failed", "failed"),
        (_told(Retry(reason="no")), "failed", "scheduled"),
        (_told(Snooze(delay_seconds=1)), "waiting", "scheduled"),
        (_lost, "lost", "pending"),
        (_killed, "crashed", "pending"),
        (_aborted, "interrupted", "cancelled"),
        (runner.hand_back, "released", "pending"),
    ],
)
def test_each_attempt_is_one_row_that_keeps_when_and_how_it_ended(
    end: Callable[[BuildJob], object], outcome: str, status: str
) -> None:
    make_job()
    job = claim()
    assert job is not None

    end(job)

    run = JobRun.objects.get()
    assert (run.pk, run.attempt, run.outcome) == (job.lease_id, 1, outcome)
    assert run.ended_at is not None
    assert run.started_at <= run.ended_at
    assert fresh(job).status == status


# -- poison --------------------------------------------------------------------------


def test_a_job_that_kills_its_process_ends_after_its_allowance() -> None:
    job = make_job(max_attempts=3)

    for _ in range(3):
        taken = claim()
        assert taken is not None
        _killed(taken)

    ended = fresh(job)
    assert (ended.status, ended.error_code) == ("failed", "max_attempts_exhausted")
    assert "SIGKILL" in (ended.error_msg or "")
    assert claim() is None
    assert kinds(job) == ["claim", "rescue"] * 3


def test_a_job_that_is_not_to_run_twice_fails_by_its_first_death(
    add_kind: AddKind,
) -> None:
    kind = add_kind(again_after_death=False)
    job = make_job(payload={"kind": kind}, max_attempts=9)
    taken = claim()
    assert taken is not None

    _killed(taken)

    ended = fresh(job)
    assert (ended.status, ended.error_code) == ("failed", "killed_by_signal")
    assert "a person must decide" in (ended.error_msg or "")
    again = verbs.retry(job.pk, actor=ANNA)
    assert again.status == JobStatus.PENDING


def test_a_job_that_is_not_to_run_twice_is_handed_back_by_a_worker_that_stops(
    add_kind: AddKind,
) -> None:
    job = make_job(payload={"kind": add_kind(again_after_death=False)})
    taken = claim()
    assert taken is not None

    runner.hand_back(taken)

    assert fresh(job).status == JobStatus.PENDING


# -- what nothing may do -------------------------------------------------------------


def test_whoever_lost_its_lease_ends_nothing() -> None:
    make_job()
    first = claim()
    assert first is not None
    _lost(first)
    second = claim()
    assert second is not None
    before = BuildJob.objects.values().get()

    for outcome in (Done(), Fail(reason="x"), Snooze(delay_seconds=0)):
        with pytest.raises(LostLeaseError):
            report(first, outcome)

    assert BuildJob.objects.values().get() == before
    assert before["lease_id"] == second.lease_id
