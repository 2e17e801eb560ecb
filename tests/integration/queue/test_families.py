"""What does the end of a child mean for its parent, whoever ends when?"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections, transaction

from buildqueue.exceptions import LostLeaseError
from buildqueue.models import BuildJob, JobEvent
from buildqueue.queue import recovery
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import (
    Cancel,
    Cause,
    Done,
    Fail,
    Outcome,
    WaitForChildren,
)
from buildqueue.states import JobStatus, RunOutcome
from tests.factories import make_job
from tests.support.families import Policy, family, running_job, statuses_of
from tests.support.jobs import fresh, kinds
from tests.support.killing import killed_before
from tests.support.races import PATIENCE, race, somebody_waits
from tests.support.turns import claim, report, turns
from tests.support.waiting import wait_until

from .conftest import AddKind

pytestmark = pytest.mark.usefixtures("committed")

DIED = Cause(outcome=RunOutcome.CRASHED, code="killed_by_signal", message="killed")
NOT_DONE: list[Outcome] = [Fail(reason="no luck", code="broken"), Cancel(reason="idle")]


# -- waking --------------------------------------------------------------------------


def test_the_last_child_wakes_its_parent_in_its_own_transaction() -> None:
    parent, [first, last] = family(2)

    report(first, Done())
    assert fresh(parent).status == JobStatus.WAITING_CHILDREN
    with transaction.atomic():
        report(last, Done())
        assert fresh(parent).status == JobStatus.PENDING

    assert kinds(parent) == ["wait", "wake"]
    woken = claim()
    assert woken is not None
    assert (woken.pk, woken.failures, woken.crashes) == (parent.pk, 0, 0)


def test_an_end_that_is_rolled_back_wakes_nobody() -> None:
    parent, [child] = family(1)

    with pytest.raises(ZeroDivisionError), transaction.atomic():  # noqa: PT012
        report(child, Done())
        raise ZeroDivisionError

    assert fresh(parent).status == JobStatus.WAITING_CHILDREN
    assert kinds(parent) == ["wait"]


@pytest.mark.parametrize("children", [2, 4])
def test_children_that_end_at_once_wake_their_parent_exactly_once(
    children: int,
) -> None:
    for _ in range(50 // children):
        parent, made = family(children)

        race(children, lambda number, made=made: report(made[number], Done()))

        assert fresh(parent).status == JobStatus.PENDING
        assert kinds(parent) == ["wait", "wake"]
        assert statuses_of(made) == ["done"] * children


def test_a_parent_that_begins_to_wait_while_its_last_child_ends_is_woken() -> None:
    """The child has ended and looked at its parent, but not committed yet."""
    parent = running_job()
    child = running_job(parent)

    def wait() -> None:
        try:
            report(parent, WaitForChildren())
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            report(child, Done())
            waiting = threads.submit(wait)
            # Whether it waits for the lock or has passed by: it had its chance.
            wait_until(lambda: waiting.done() or somebody_waits())
        waiting.result(PATIENCE)

    assert fresh(parent).status == JobStatus.PENDING
    assert kinds(parent) == ["wait", "wake"]


def test_waits_and_ends_at_once_never_leave_a_parent_asleep() -> None:
    for _ in range(50):
        parent = running_job()
        child = running_job(parent)

        def act(number: int, parent: BuildJob = parent, child: BuildJob = child) -> Any:
            if number:
                return report(child, Done())
            return report(parent, WaitForChildren())

        race(2, act)

        assert fresh(parent).status == JobStatus.PENDING
        assert kinds(parent) == ["wait", "wake"]


def test_a_child_killed_right_before_its_commit_ends_once_and_wakes_its_parent() -> (
    None
):
    parent, [child] = family(1)
    statements = 0
    while killed_before(statements + 1, lambda: report(child, Done())):
        statements += 1
        if fresh(child).status == JobStatus.IN_PROGRESS:
            assert fresh(parent).status == JobStatus.WAITING_CHILDREN
        else:
            break

    assert statements > 3
    assert fresh(child).status == JobStatus.DONE
    assert fresh(parent).status == JobStatus.PENDING
    assert kinds(parent) == ["wait", "wake"]


def test_a_child_whose_process_died_wakes_its_parent_by_its_rescue() -> None:
    parent, [child] = family(1, "collect")
    BuildJob.objects.filter(pk=child.pk).update(max_attempts=1)

    assert recovery.rescue([fresh(child)], DIED) == 1

    assert fresh(child).status == JobStatus.FAILED
    assert fresh(parent).status == JobStatus.PENDING


# -- what a failed child means -------------------------------------------------------


@pytest.mark.parametrize("outcome", NOT_DONE, ids=["failed", "cancelled"])
def test_with_fail_the_parent_fails_at_once_and_its_other_children_are_cancelled(
    outcome: Outcome,
) -> None:
    parent, [bad, running, done] = family(3)
    scheduled = make_job(JobStatus.SCHEDULED, parent=parent)
    report(done, Done())

    report(bad, outcome)

    failed = fresh(parent)
    assert (failed.status, failed.error_code) == ("failed", "child_failed")
    assert str(bad.pk) in (failed.error_msg or "")
    assert (fresh(bad).error_msg or "?") in (failed.error_msg or "")
    assert statuses_of([running, scheduled, done]) == ["cancelled", "cancelled", "done"]
    told = JobEvent.objects.get(job_id=running.pk, kind="cancel")
    assert told.actor == "parent job"
    with pytest.raises(LostLeaseError):
        report(running, Done())


@pytest.mark.parametrize("outcome", NOT_DONE, ids=["failed", "cancelled"])
@pytest.mark.parametrize("policy", ["collect", "ignore"])
def test_otherwise_the_parent_runs_again_when_all_have_ended(
    policy: Policy, outcome: Outcome
) -> None:
    parent, [bad, good] = family(2, policy)

    report(bad, outcome)
    assert fresh(parent).status == JobStatus.WAITING_CHILDREN
    assert fresh(good).status == JobStatus.IN_PROGRESS
    report(good, Done())

    assert fresh(parent).status == JobStatus.PENDING


def test_a_child_that_is_tried_again_has_not_failed() -> None:
    parent, [child] = family(1)

    recovery.rescue([child], DIED)

    assert fresh(child).status == JobStatus.PENDING
    assert fresh(parent).status == JobStatus.WAITING_CHILDREN


def test_a_handler_sees_how_its_children_ended(add_kind: AddKind) -> None:
    def child(ctx: Context, payload: Any) -> Outcome:
        return Fail(reason="no") if payload.kind == bad else Done(result={"n": 1})

    good, bad = add_kind(function=child), add_kind(function=child)

    def handle(ctx: Context, payload: object) -> Outcome:
        for kind in (good, bad):
            ctx.spawn(kind, {"kind": kind})
        if any(not each.is_final for each in ctx.children()):
            return WaitForChildren(on_failure="collect")
        return Done(result={"ended": [each.status for each in ctx.children()]})

    parent = make_job(payload={"kind": add_kind(function=handle)})

    turns()

    ended = fresh(parent)
    assert (ended.status, ended.result) == ("done", {"ended": ["done", "failed"]})
    assert ended.attempt == 2
    assert BuildJob.objects.filter(parent=parent).count() == 2
