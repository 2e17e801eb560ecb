"""What may people do to a job, and what is left behind when they did?"""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connections

from buildqueue.exceptions import InvalidOption, InvalidTransition, Refused
from buildqueue.models import BuildJob, JobEvent, JobRun
from buildqueue.queue import actions, recovery, transitions, verbs
from buildqueue.queue.context import Context
from buildqueue.queue.context.fencing import fenced_job_first
from buildqueue.queue.outcomes import Actor, Cause
from buildqueue.states import ActionStatus, JobStatus, RunOutcome
from tests.factories import make_job
from tests.support.decisions import make_action
from tests.support.jobs import fresh
from tests.support.notices import Notices
from tests.support.races import race, somebody_waits
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


# -- whatever a host may pass --------------------------------------------------------


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
