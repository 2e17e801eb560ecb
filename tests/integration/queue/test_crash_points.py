"""Is a change of a job wholly there or not at all, wherever its process is killed?

Each act is done again and again by a process that gets a real SIGKILL before its first,
second, third … statement or commit, until one gets through. After each kill the tables are
as they were, or as they are to be.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from buildqueue.models import BuildJob, Checkpoint, JobProgress, JobRun
from buildqueue.queue import claiming, enqueueing, records, recovery, transitions
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import (
    Cause,
    Done,
    Retry,
    WaitForApproval,
    WaitForChildren,
)
from buildqueue.states import ActionStatus, JobStatus, RunOutcome
from tests.factories import make_job
from tests.host.jobs import Probe
from tests.host.models import Effect
from tests.support.decisions import ask_how_many, make_action
from tests.support.jobs import fresh, kinds
from tests.support.killing import MOST, Act, all_or_nothing, ended_as, killed_before
from tests.support.turns import holder, report

from .conftest import AddKind

pytestmark = pytest.mark.usefixtures("committed")

DIED = Cause(
    outcome=RunOutcome.CRASHED, code="killed_by_signal", message="it was killed"
)


def _report(job: BuildJob, outcome: Any) -> Act:
    return lambda: report(job, outcome)


# -- enqueue and claim ---------------------------------------------------------------


def test_enqueue() -> None:
    all_or_nothing(
        lambda: enqueueing.enqueue(Probe()),
        lambda: kinds(BuildJob.objects.get()) == ["enqueue"],
    )


def test_enqueue_in_place_of_another() -> None:
    old = enqueueing.enqueue(Probe(), dedupe_key="one")

    def done() -> bool:
        new = BuildJob.objects.exclude(pk=old.pk).get()
        return (fresh(old).status, new.status) == ("cancelled", "pending")

    def act() -> object:
        return enqueueing.enqueue(Probe(), dedupe_key="one", on_duplicate="replace")

    for number in range(1, MOST):
        if not killed_before(number, act):
            break
        # Two transactions: the old one may be gone before the new one is there.
        assert fresh(old).status in {"pending", "cancelled"}
        assert BuildJob.objects.filter(completed_at=None).count() <= 1
    assert done()


def test_claim() -> None:
    job = enqueueing.enqueue(Probe())
    all_or_nothing(
        lambda: claiming.claim(claiming.Scope(), holder()),
        lambda: (
            fresh(job).attempt == 1
            and JobRun.objects.get().pk == fresh(job).lease_id
            and kinds(job) == ["enqueue", "claim"]
        ),
    )


def test_promote() -> None:
    moment = timezone.now() - timedelta(hours=1)
    job = make_job(JobStatus.SCHEDULED, due_at=moment)
    all_or_nothing(
        transitions.promote_due,
        lambda: fresh(job).status == "pending" and kinds(job) == ["promote"],
    )


# -- reports -------------------------------------------------------------------------


def test_finish_with_its_final_hook(add_kind: AddKind) -> None:
    def hook(job: BuildJob) -> None:
        Effect.objects.create(label="hooked")

    kind = add_kind(on_final=hook)
    job = make_job(JobStatus.IN_PROGRESS, payload={"kind": kind})
    ended = ended_as(job, "done", "succeeded", "finish")
    all_or_nothing(
        _report(job, Done(result={"a": 1})),
        lambda: ended() and Effect.objects.count() == 1,
    )


def test_retry_later() -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    all_or_nothing(
        _report(job, Retry(reason="again")),
        ended_as(job, "scheduled", "failed", "retry_later"),
    )


def test_wait_for_input() -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    ended = ended_as(job, "waiting_input", "waiting", "wait")
    all_or_nothing(
        lambda: ask_how_many(job),
        lambda: ended() and JobProgress.objects.get().waits_for["for"] == "input",
    )


def test_wait_that_is_over_before_it_begins() -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    make_action(job, ActionStatus.APPROVED)
    all_or_nothing(
        _report(job, WaitForApproval()),
        lambda: fresh(job).status == "pending" and kinds(job) == ["wait", "wake"],
    )


def test_the_last_child_wakes_its_parent() -> None:
    parent = make_job(JobStatus.IN_PROGRESS)
    child = make_job(JobStatus.IN_PROGRESS, parent=parent)
    report(parent, WaitForChildren())
    all_or_nothing(
        _report(child, Done()),
        lambda: (
            fresh(child).status == "done"
            and fresh(parent).status == "pending"
            and kinds(parent) == ["wait", "wake"]
        ),
    )


def test_a_failed_child_fails_its_parent() -> None:
    parent = make_job(JobStatus.IN_PROGRESS)
    child = make_job(JobStatus.IN_PROGRESS, parent=parent, max_attempts=1)
    report(parent, WaitForChildren(on_failure="fail"))
    all_or_nothing(
        _report(child, Retry(reason="no")),
        lambda: (
            fresh(child).status == "failed"
            and fresh(parent).error_code == "child_failed"
            and kinds(parent) == ["wait", "child_failed"]
        ),
    )


# -- rescue --------------------------------------------------------------------------


def test_rescue() -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    all_or_nothing(
        lambda: recovery.rescue([job], DIED),
        ended_as(job, "pending", "crashed", "rescue"),
    )


def test_rescue_in_the_middle_of_an_effect_outside() -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    action = make_action(job, ActionStatus.EXECUTING)

    def done() -> bool:
        action.refresh_from_db()
        found = fresh(job)
        return (found.status, found.error_code, action.status) == (
            "failed",
            "outcome_unknown",
            "outcome_unknown",
        )

    all_or_nothing(lambda: recovery.rescue([job], DIED), done)


def test_a_final_hook_tried_again(add_kind: AddKind) -> None:
    kind = add_kind(on_final=lambda job: Effect.objects.create(label="late"))
    job = make_job(JobStatus.DONE, payload={"kind": kind}, hook_pending=True)
    all_or_nothing(
        lambda: transitions.retry_final_hook(job.pk),
        lambda: Effect.objects.count() == 1 and not fresh(job).hook_pending,
    )


# -- steps and memory ----------------------------------------------------------------


def _context(job: BuildJob) -> Context:
    from django.db import connection

    assert job.lease_id is not None
    session = connection.copy()
    session.connect()
    return Context(job=job, lease_id=job.lease_id, session=session)


def test_a_step() -> None:
    job = make_job(JobStatus.IN_PROGRESS)

    def act() -> None:
        with _context(job).step("charge") as step:
            Effect.objects.create(label="charged")
            step.result = 1

    for number in range(1, MOST):
        killed = killed_before(number, act)
        effects, steps = Effect.objects.count(), Checkpoint.objects.count()
        assert (effects, steps) in {(0, 0), (1, 1)}, number
        assert kinds(job).count("step_finished") == steps
        if not killed:
            break
        if steps:
            return
    assert effects == 1


def test_a_child_is_enqueued_with_the_checkpoint_that_remembers_it() -> None:
    job = make_job(JobStatus.IN_PROGRESS)

    def act() -> object:
        return _context(job).spawn("a", Probe())

    for number in range(1, MOST):
        killed = killed_before(number, act)
        children = BuildJob.objects.filter(parent=job).count()
        assert Checkpoint.objects.count() == children <= 1
        if not killed:
            break
    assert children == 1


def test_compare_and_swap() -> None:
    job = make_job()
    records.ensure(job.pk)
    all_or_nothing(
        lambda: records.compare_and_swap(job.pk, {}, {"n": 1}),
        lambda: JobProgress.objects.get().state == {"n": 1},
    )
