"""Does each transition lead from its statuses only, telling one event, and is every
other pair refused without a trace?"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from buildqueue import states
from buildqueue.exceptions import InvalidTransition, LostLeaseError
from buildqueue.models import BuildJob, JobEvent, JobRun
from buildqueue.queue import claiming, recovery, transitions, verbs
from buildqueue.queue.outcomes import WORKER, Actor, Cause
from buildqueue.queue.transitions import Change
from buildqueue.states import TRANSITIONS, JobStatus, RunOutcome
from tests.factories import make_job
from tests.support.turns import holder

pytestmark = pytest.mark.django_db

ANNA = Actor(label="anna", id="7")
CRASH = Cause(outcome=RunOutcome.CRASHED, code="crashed", message="it crashed")
Drive = Callable[[BuildJob], object]


def _applied(name: str, target: JobStatus | None = None, **options: Any) -> Drive:
    transition = TRANSITIONS[name]

    def drive(job: BuildJob) -> object:
        change = Change(
            transition=transition,
            target=target or min(transition.targets),
            actor=WORKER if transition.fenced else ANNA,
            reason="because",
            **options,
        )
        fence = (job.lease_id or uuid.uuid4()) if transition.fenced else None
        return transitions.apply(job.pk, change, fence=fence)

    return drive


def _verb(name: str) -> Drive:
    return lambda job: verbs.VERBS[name][0](job.pk, actor=ANNA, reason="because")


def _reschedule(job: BuildJob) -> object:
    later = timezone.now() + timedelta(hours=1)
    return verbs.change_due(job.pk, due_at=later, actor=ANNA, reason="because")


def _rescue(job: BuildJob) -> object:
    return transitions.apply(job.pk, recovery.rescue_change(job, CRASH))


def _promote(job: BuildJob) -> object:
    BuildJob.objects.filter(pk=job.pk).update(
        due_at=timezone.now() - timedelta(hours=1)
    )
    if not transitions.promote_due():
        raise InvalidTransition(job.pk, "promote", job.status)
    return None


def _claim(job: BuildJob) -> object:
    if not transitions.take(claiming.candidates("default", ANY, 1), holder()):
        raise InvalidTransition(job.pk, "claim", job.status)
    return None


ANY = claiming.Scope()
SUCCEEDED = {"outcome": RunOutcome.SUCCEEDED}
FAILED = {"outcome": RunOutcome.FAILED}
WAITING = {"outcome": RunOutcome.WAITING}
RELEASED = {"outcome": RunOutcome.RELEASED}
QUESTION = {"for": "input", "question": "Which?", "fields": {}}

# How each transition is made; enqueue and result_missing have tests of their own.
DRIVES: dict[str, Drive] = {
    "promote": _promote,
    "claim": _claim,
    "finish": _applied("finish", run=SUCCEEDED),
    "fail": _applied("fail", run=FAILED),
    "retry_later": _applied("retry_later", run=FAILED),
    "snooze": _applied("snooze", run=WAITING),
    "hand_back": _applied("hand_back", run=RELEASED),
    "withdraw": _applied("withdraw", run=SUCCEEDED),
    "wait": _applied("wait", JobStatus.WAITING_INPUT, run=WAITING, waits_for=QUESTION),
    "wake": _applied("wake"),
    "rescue": _rescue,
    "outcome_unknown": _applied("outcome_unknown"),
    "child_failed": _applied("child_failed"),
    "pause": _verb("pause"),
    "resume": _verb("resume"),
    "reschedule": _reschedule,
    "cancel": _verb("cancel"),
    "release": _verb("release"),
    "force_fail": _verb("force_fail"),
    "retry": _verb("retry"),
}
LEAVES_THE_RUN_OPEN = {"pause", "cancel", "release", "force_fail", "outcome_unknown"}
PAIRS = [
    (status, name) for status in JobStatus for name in TRANSITIONS if name in DRIVES
]


def _trace(job: BuildJob) -> dict[str, Any]:
    stored = BuildJob.objects.filter(pk=job.pk).values().get()
    del stored["due_at"]  # the drive of promote sets it
    return {
        "job": stored,
        "runs": list(JobRun.objects.order_by("id").values()),
        "events": list(JobEvent.objects.order_by("id").values()),
    }


def test_every_transition_is_driven() -> None:
    assert set(DRIVES) == set(TRANSITIONS) - {"enqueue", "result_missing"}


@pytest.mark.parametrize(
    ("status", "name"),
    [pair for pair in PAIRS if TRANSITIONS[pair[1]].allowed_from(pair[0])],
)
def test_an_allowed_transition_leads_to_its_target_and_tells_one_event(
    status: JobStatus, name: str
) -> None:
    job = make_job(status)

    DRIVES[name](job)

    after = BuildJob.objects.get(pk=job.pk)
    assert after.status in TRANSITIONS[name].targets
    assert (after.completed_at is not None) == (after.status in states.FINAL)
    assert (after.lease_id is not None) == (after.status == JobStatus.IN_PROGRESS)
    [event] = JobEvent.objects.filter(job_id=job.pk)
    assert (event.kind, event.title) == (name, after.status)
    assert event.attempt == after.attempt


@pytest.mark.parametrize(
    ("status", "name"),
    [pair for pair in PAIRS if not TRANSITIONS[pair[1]].allowed_from(pair[0])],
)
def test_a_transition_that_is_not_allowed_is_refused_without_a_trace(
    status: JobStatus, name: str
) -> None:
    job = make_job(status)
    before = _trace(job)
    expected = LostLeaseError if TRANSITIONS[name].fenced else InvalidTransition

    with pytest.raises(expected):
        DRIVES[name](job)

    assert _trace(job) == before


@pytest.mark.parametrize(
    "name",
    [name for name in DRIVES if TRANSITIONS[name].allowed_from(JobStatus.IN_PROGRESS)],
)
def test_the_run_is_closed_unless_its_process_may_still_live(name: str) -> None:
    job = make_job(JobStatus.IN_PROGRESS)

    DRIVES[name](job)

    run = JobRun.objects.get(pk=job.lease_id)
    if name in LEAVES_THE_RUN_OPEN:
        assert (run.ended_at, run.outcome) == (None, None)
        assert run.expires_at == job.lease_until
    else:
        assert run.ended_at is not None
        assert run.outcome is not None


@pytest.mark.parametrize("name", [t.name for t in TRANSITIONS.values() if t.fenced])
def test_a_stale_lease_writes_nothing(name: str) -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    stale = BuildJob.objects.get(pk=job.pk)
    recovery.rescue([stale], CRASH)
    [again] = transitions.take(claiming.candidates("default", ANY, 1), holder())
    assert again.lease_id != stale.lease_id
    before = _trace(job)

    with pytest.raises(LostLeaseError):
        DRIVES[name](stale)

    assert _trace(job) == before


@pytest.mark.parametrize("name", [t.name for t in TRANSITIONS.values() if t.fenced])
def test_a_workers_change_without_its_fence_is_a_fault_of_the_caller(name: str) -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    change = Change(transition=TRANSITIONS[name], target=min(TRANSITIONS[name].targets))

    with pytest.raises(TypeError, match="fence it"):
        transitions.apply(job.pk, change)


def test_a_target_that_the_transition_does_not_have_is_a_fault_of_the_caller() -> None:
    with pytest.raises(ValueError, match="does not lead"):
        Change(transition=states.CANCEL, target=JobStatus.DONE)


@pytest.mark.parametrize("name", [*sorted(verbs.VERBS), "reschedule"])
def test_a_job_that_is_not_there_is_told_so(name: str) -> None:
    job = make_job(JobStatus.FAILED)
    missing = BuildJob(pk=uuid.uuid4())

    with pytest.raises(InvalidTransition, match="does not exist"):
        DRIVES[name](missing)

    assert BuildJob.objects.get().pk == job.pk


@pytest.mark.parametrize("status", list(JobStatus))
def test_the_verbs_on_offer_are_those_that_would_pass(status: JobStatus) -> None:
    job = make_job(status)
    offered = set(verbs.allowed(job))

    passing = {
        name for name in verbs.VERBS if TRANSITIONS[name].allowed_from(job.status)
    }

    assert offered == passing
