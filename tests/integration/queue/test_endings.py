"""Does a job that ends always drive its final hook, and can a hook keep it from ending?"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from buildqueue import states
from buildqueue.exceptions import Refused, ResultMissing
from buildqueue.models import BuildJob, JobEvent, JobRun
from buildqueue.queue import handlers, recovery, transitions, verbs
from buildqueue.queue.outcomes import WORKER, Actor, Cause
from buildqueue.queue.transitions import Change
from buildqueue.states import JobStatus, RunOutcome
from tests.factories import make_job
from tests.host.models import Effect

from .conftest import AddKind

pytestmark = pytest.mark.django_db

ANNA = Actor(label="anna", id="7")
CRASH = Cause(outcome=RunOutcome.CRASHED, code="crashed", message="it crashed")


def _running(kind: str, **values: Any) -> BuildJob:
    return make_job(JobStatus.IN_PROGRESS, payload={"kind": kind}, **values)


def _finish(job: BuildJob, **values: Any) -> BuildJob:
    change = Change(
        transition=states.FINISH,
        target=JobStatus.DONE,
        actor=WORKER,
        values=values,
        run={"outcome": RunOutcome.SUCCEEDED},
    )
    return transitions.apply(job.pk, change, fence=job.lease_id)


def _leave_effect(job: BuildJob) -> None:
    Effect.objects.create(label=job.status)


def _events(job: BuildJob) -> list[str]:
    return list(
        JobEvent.objects.filter(job_id=job.pk)
        .order_by("id")
        .values_list("kind", flat=True)
    )


def test_the_hook_runs_with_the_job_as_it_ended(add_kind: AddKind) -> None:
    seen: list[tuple[str, bool]] = []
    kind = add_kind(
        on_final=lambda job: seen.append((job.status, job.completed_at is not None))
    )

    _finish(_running(kind))
    verbs.cancel(make_job(payload={"kind": kind}).pk, actor=ANNA)
    verbs.force_fail(make_job(payload={"kind": kind}).pk, actor=ANNA, reason="lost")
    recovery.rescue([_running(kind, max_attempts=1)], CRASH)

    assert seen == [
        ("done", True),
        ("cancelled", True),
        ("failed", True),
        ("failed", True),
    ]


def test_a_job_that_goes_on_runs_no_hook(add_kind: AddKind) -> None:
    kind = add_kind(on_final=_leave_effect)

    recovery.rescue([_running(kind)], CRASH)
    verbs.release(_running(kind).pk, actor=ANNA, reason="it hangs")

    assert not Effect.objects.exists()


def test_what_the_hook_wrote_is_rolled_back_with_the_end(add_kind: AddKind) -> None:
    job = make_job(payload={"kind": add_kind(on_final=_leave_effect)})

    with pytest.raises(ZeroDivisionError), transaction.atomic():  # noqa: PT012
        verbs.cancel(job.pk, actor=ANNA)
        assert Effect.objects.count() == 1
        raise ZeroDivisionError

    job.refresh_from_db()
    assert job.status == JobStatus.PENDING
    assert not Effect.objects.exists()
    assert _events(job) == []


def _break(job: BuildJob) -> None:
    Effect.objects.create(label="half")
    raise ValueError("no \x00 luck")


def test_a_hook_that_raises_is_recorded_and_does_not_keep_the_job_open(
    add_kind: AddKind,
) -> None:
    job = _running(add_kind(on_final=_break))

    ended = _finish(job)

    assert ended.status == JobStatus.DONE
    assert ended.hook_pending
    assert BuildJob.objects.get(pk=job.pk).hook_pending
    assert _events(job) == ["finish", "final_hook_failed"]
    detail = JobEvent.objects.get(kind="final_hook_failed").detail
    assert detail["error"].startswith("ValueError: no")
    assert not Effect.objects.exists()


def _break_the_database(job: BuildJob) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 / 0")


def test_a_hook_that_spoils_its_transaction_does_not_spoil_the_end(
    add_kind: AddKind,
) -> None:
    job = _running(add_kind(on_final=_break_the_database))

    assert _finish(job).status == JobStatus.DONE
    assert BuildJob.objects.get(pk=job.pk).hook_pending


def test_a_hook_that_raised_is_tried_again_until_it_goes_well(
    add_kind: AddKind,
) -> None:
    broken = [True]

    def hook(job: BuildJob) -> None:
        if broken[0]:
            raise ValueError("not yet")
        _leave_effect(job)

    job = _running(add_kind(on_final=hook))
    _finish(job)

    assert recovery.retry_hooks() == 0
    assert recovery.retry_hooks() == 0
    broken[0] = False
    assert recovery.retry_hooks() == 1
    assert recovery.retry_hooks() == 0

    assert Effect.objects.get().label == "done"
    assert not BuildJob.objects.get(pk=job.pk).hook_pending
    # Told once, however often it failed.
    assert _events(job) == ["finish", "final_hook_failed"]


def test_done_without_its_result_is_failed_and_the_hook_hears_of_that(
    add_kind: AddKind,
) -> None:
    def hook(job: BuildJob) -> None:
        _leave_effect(job)
        if job.status == JobStatus.DONE:
            raise ResultMissing("there is no build")

    job = _running(add_kind(on_final=hook))
    ended = _finish(job, result={"built": True})

    assert (ended.status, ended.error_code) == ("failed", "result_missing")
    assert ended.error_msg == "there is no build"
    assert ended.result is None
    assert not ended.hook_pending
    assert [effect.label for effect in Effect.objects.all()] == ["failed"]
    assert _events(job) == ["finish", "result_missing"]
    run = JobRun.objects.get(pk=job.lease_id)
    assert (run.outcome, run.error_code) == ("failed", "result_missing")


def test_a_result_that_a_later_try_of_the_hook_misses_fails_the_job_too(
    add_kind: AddKind,
) -> None:
    faults: list[Exception] = [ValueError("not now"), ResultMissing("gone")]

    def hook(job: BuildJob) -> None:
        if faults:
            raise faults.pop(0)

    job = _running(add_kind(on_final=hook))
    _finish(job)

    assert recovery.retry_hooks() == 1

    ended = BuildJob.objects.get(pk=job.pk)
    assert (ended.status, ended.error_code) == ("failed", "result_missing")
    assert not ended.hook_pending
    assert _events(job) == ["finish", "final_hook_failed", "result_missing"]


def test_a_hook_that_always_misses_the_result_ends_in_a_record_not_in_a_loop(
    add_kind: AddKind,
) -> None:
    def hook(job: BuildJob) -> None:
        raise ResultMissing("never there")

    job = _running(add_kind(on_final=hook))
    ended = _finish(job)

    assert (ended.status, ended.hook_pending) == ("failed", True)
    assert _events(job) == ["finish", "result_missing", "final_hook_failed"]


def test_a_kind_that_nobody_registered_reaches_the_fallback_hook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handlers, "_fallback", [])
    handlers.register_fallback(on_final=_leave_effect, on_reopen=lambda job: None)

    _finish(_running("nobody_knows_it"))

    assert Effect.objects.get().label == "done"


def test_a_retry_that_the_kind_refuses_leaves_the_job_as_it_was(
    add_kind: AddKind,
) -> None:
    def refuse(job: BuildJob) -> None:
        raise Refused("agent_deleted", "The agent is gone; there is nothing to retry.")

    job = make_job(
        JobStatus.FAILED, payload={"kind": add_kind(on_reopen=refuse)}, failures=3
    )
    before = BuildJob.objects.filter(pk=job.pk).values().get()

    with pytest.raises(Refused):
        verbs.retry(job.pk, actor=ANNA)

    assert BuildJob.objects.filter(pk=job.pk).values().get() == before
    assert _events(job) == []


def test_what_went_wrong_before_does_not_stand_on_a_job_that_is_done(
    add_kind: AddKind,
) -> None:
    job = _running(add_kind(), error_code="exception", error_msg="the first try")

    ended = _finish(job)

    assert (ended.error_code, ended.error_msg) == (None, None)


def test_texts_that_postgresql_cannot_keep_do_not_keep_a_job_from_ending(
    add_kind: AddKind,
) -> None:
    job = _running(add_kind())
    broken = "nul \x00 and a lone \ud800 surrogate"
    change = Change(
        transition=states.FAIL,
        target=JobStatus.FAILED,
        actor=WORKER,
        reason=broken,
        values={
            "error_code": "x" * 300,
            "error_msg": broken,
            "result": {"a": [broken]},
        },
        run={"outcome": RunOutcome.FAILED, "traceback": broken},
        detail={broken: broken},
    )

    ended = transitions.apply(job.pk, change, fence=job.lease_id)

    assert ended.status == JobStatus.FAILED
    assert ended.error_msg is not None
    assert ended.error_msg.startswith("nul ")
    assert len(ended.error_code or "") == 100


def test_a_fault_of_the_database_in_a_change_is_no_half_change() -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    change = Change(
        transition=states.HAND_BACK,
        target=JobStatus.PENDING,
        values={"priority": 500},
        run={"outcome": RunOutcome.RELEASED},
    )

    with pytest.raises(IntegrityError, match="chk_build_jobs_priority"):
        transitions.apply(job.pk, change, fence=job.lease_id)

    assert JobRun.objects.get(pk=job.lease_id).ended_at is None
    assert BuildJob.objects.get(pk=job.pk).status == JobStatus.IN_PROGRESS
