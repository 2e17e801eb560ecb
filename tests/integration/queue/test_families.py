"""What does a job's end mean for its parent and its children, whoever ends when?"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Literal

import pytest
from django.db import connection, connections, transaction

from buildqueue.exceptions import InvalidTransition, LostLeaseError, Refused
from buildqueue.models import BuildJob, Checkpoint, JobEvent
from buildqueue.queue import enqueueing, recovery, verbs
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import (
    Actor,
    Cancel,
    Cause,
    Done,
    Fail,
    Outcome,
    WaitForChildren,
)
from buildqueue.states import FINAL, ActionStatus, JobStatus, RunOutcome
from tests.factories import make_job
from tests.host.jobs import Probe
from tests.support.decisions import make_action
from tests.support.jobs import fresh, kinds
from tests.support.killing import killed_before
from tests.support.races import PATIENCE, race, somebody_waits
from tests.support.turns import claim, report, turn, turns
from tests.support.waiting import wait_until

from .conftest import AddKind

pytestmark = pytest.mark.usefixtures("committed")

ANNA = Actor(label="anna", id="7")
DIED = Cause(outcome=RunOutcome.CRASHED, code="killed_by_signal", message="killed")
Policy = Literal["fail", "collect", "ignore"]
NOT_DONE: list[Outcome] = [Fail(reason="no luck", code="broken"), Cancel(reason="idle")]


def _running(parent: BuildJob | None = None, **values: Any) -> BuildJob:
    return make_job(JobStatus.IN_PROGRESS, parent=parent, **values)


def _family(children: int, policy: Policy = "fail") -> tuple[BuildJob, list[BuildJob]]:
    """Make a parent that waits for running children."""
    parent = _running()
    made = [_running(parent) for _ in range(children)]
    report(parent, WaitForChildren(on_failure=policy))
    return fresh(parent), made


def _statuses(jobs: list[BuildJob]) -> list[str]:
    return [fresh(job).status for job in jobs]


def _context(job: BuildJob) -> Context:
    assert job.lease_id is not None
    return Context(job=job, lease_id=job.lease_id)


# -- waking --------------------------------------------------------------------------


def test_the_last_child_wakes_its_parent_in_its_own_transaction() -> None:
    parent, [first, last] = _family(2)

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
    parent, [child] = _family(1)

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
        parent, made = _family(children)

        race(children, lambda number, made=made: report(made[number], Done()))

        assert fresh(parent).status == JobStatus.PENDING
        assert kinds(parent) == ["wait", "wake"]
        assert _statuses(made) == ["done"] * children


def test_a_parent_that_begins_to_wait_while_its_last_child_ends_is_woken() -> None:
    """The child has ended and looked at its parent, but not committed yet."""
    parent = _running()
    child = _running(parent)

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
        parent = _running()
        child = _running(parent)

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
    parent, [child] = _family(1)
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
    parent, [child] = _family(1, "collect")
    BuildJob.objects.filter(pk=child.pk).update(max_attempts=1)

    assert recovery.rescue([fresh(child)], DIED) == 1

    assert fresh(child).status == JobStatus.FAILED
    assert fresh(parent).status == JobStatus.PENDING


# -- what a failed child means -------------------------------------------------------


@pytest.mark.parametrize("outcome", NOT_DONE, ids=["failed", "cancelled"])
def test_with_fail_the_parent_fails_at_once_and_its_other_children_are_cancelled(
    outcome: Outcome,
) -> None:
    parent, [bad, running, done] = _family(3)
    scheduled = make_job(JobStatus.SCHEDULED, parent=parent)
    report(done, Done())

    report(bad, outcome)

    failed = fresh(parent)
    assert (failed.status, failed.error_code) == ("failed", "child_failed")
    assert str(bad.pk) in (failed.error_msg or "")
    assert (fresh(bad).error_msg or "?") in (failed.error_msg or "")
    assert _statuses([running, scheduled, done]) == ["cancelled", "cancelled", "done"]
    told = JobEvent.objects.get(job_id=running.pk, kind="cancel")
    assert told.actor == "parent job"
    with pytest.raises(LostLeaseError):
        report(running, Done())


@pytest.mark.parametrize("outcome", NOT_DONE, ids=["failed", "cancelled"])
@pytest.mark.parametrize("policy", ["collect", "ignore"])
def test_otherwise_the_parent_runs_again_when_all_have_ended(
    policy: Policy, outcome: Outcome
) -> None:
    parent, [bad, good] = _family(2, policy)

    report(bad, outcome)
    assert fresh(parent).status == JobStatus.WAITING_CHILDREN
    assert fresh(good).status == JobStatus.IN_PROGRESS
    report(good, Done())

    assert fresh(parent).status == JobStatus.PENDING


def test_a_child_that_is_tried_again_has_not_failed() -> None:
    parent, [child] = _family(1)

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


# -- a parent that ends --------------------------------------------------------------


def _tree(depth: int) -> list[BuildJob]:
    """Make a line of parents that wait, each for the next; the last one runs."""
    line = [_running()]
    for _ in range(depth):
        line.append(_running(line[-1]))
    for waiting in line[:-1]:
        report(waiting, WaitForChildren())
    return line


def test_a_cancel_goes_down_the_tree() -> None:
    line = _tree(3)
    aside = [_running(parent) for parent in line]

    verbs.cancel(line[0].pk, actor=ANNA, reason="not needed")

    assert _statuses(line + aside) == ["cancelled"] * 8
    assert recovery.repair_pairs() == 0


def test_a_failure_at_the_bottom_goes_up_the_tree_and_down_its_branches() -> None:
    line = _tree(3)
    aside = [_running(parent) for parent in line[:-1]]

    report(line[-1], Fail(reason="no luck"))

    assert _statuses(line) == ["failed"] * 4
    assert _statuses(aside) == ["cancelled"] * 3
    assert [fresh(job).error_code for job in line[:-1]] == ["child_failed"] * 3


@pytest.mark.parametrize("end", ["cancel", "force_fail"])
def test_the_children_of_a_parent_that_a_person_ends_are_cancelled(end: str) -> None:
    parent, children = _family(3)

    verbs.VERBS[end][0](parent.pk, actor=ANNA, reason="not needed")

    assert _statuses(children) == ["cancelled"] * 3


def test_the_children_of_a_paused_parent_go_on() -> None:
    parent, children = _family(2)

    verbs.pause(parent.pk, actor=ANNA)

    assert _statuses(children) == ["in_progress"] * 2
    assert recovery.repair_pairs() == 0


def test_the_child_of_a_done_parent_goes_on() -> None:
    parent = _running()
    child = _running(parent)

    report(parent, Done())
    assert recovery.repair_pairs() == 0

    assert fresh(child).status == JobStatus.IN_PROGRESS
    assert report(child, Fail(reason="no")).status == JobStatus.FAILED
    assert fresh(parent).status == JobStatus.DONE


def test_an_end_that_is_rolled_back_cancels_no_children() -> None:
    parent, [child] = _family(1)

    with pytest.raises(ZeroDivisionError), transaction.atomic():  # noqa: PT012
        verbs.cancel(parent.pk, actor=ANNA)
        raise ZeroDivisionError

    assert fresh(child).status == JobStatus.IN_PROGRESS
    assert recovery.repair_pairs() == 0


def test_a_retried_parent_keeps_its_children_and_enqueues_none_twice(
    add_kind: AddKind,
) -> None:
    child_kind = add_kind()

    def handle(ctx: Context, payload: object) -> Outcome:
        for key in "ab":
            ctx.spawn(key, {"kind": child_kind})
        if any(not each.is_final for each in ctx.children()):
            return WaitForChildren()
        return Done()

    parent = make_job(payload={"kind": add_kind(function=handle)})
    turn()
    turn()  # the first child is done
    verbs.cancel(parent.pk, actor=ANNA)
    children = list(BuildJob.objects.filter(parent=parent).order_by("seq"))
    assert [child.status for child in children] == ["done", "cancelled"]

    verbs.retry(parent.pk, actor=ANNA)
    turns()
    recovery.repair_pairs()

    assert fresh(parent).status == JobStatus.DONE
    assert _statuses(children) == ["done", "done"]
    assert [fresh(child).attempt for child in children] == [1, 1]
    assert BuildJob.objects.count() == 3


def test_a_whole_tree_that_did_not_end_done_is_retried_by_its_top() -> None:
    line = _tree(3)
    beside = _running(line[0])
    report(beside, Done())
    report(line[-1], Fail(reason="no luck"))
    assert _statuses(line) == ["failed"] * 4

    verbs.retry(line[0].pk, actor=ANNA, reason="the power is back")
    assert recovery.repair_pairs() == 0

    assert _statuses([*line, beside]) == [*["pending"] * 4, "done"]
    [told] = JobEvent.objects.filter(job_id=line[-1].pk, kind="retry")
    assert (told.actor, told.reason) == ("anna", "the power is back")


def test_a_parent_whose_child_failed_can_be_retried_with_it(add_kind: AddKind) -> None:
    broken = [True]

    def child(ctx: Context, payload: object) -> Outcome:
        return Fail(reason="no luck") if broken[0] else Done()

    child_kind = add_kind(function=child)

    def handle(ctx: Context, payload: object) -> Outcome:
        ctx.spawn("a", {"kind": child_kind})
        if any(not each.is_final for each in ctx.children()):
            return WaitForChildren()
        return Done(result={"ended": [each.status for each in ctx.children()]})

    parent = make_job(payload={"kind": add_kind(function=handle)})
    turns()
    assert fresh(parent).error_code == "child_failed"
    broken[0] = False

    verbs.retry(parent.pk, actor=ANNA)
    turns()

    assert fresh(parent).result == {"ended": ["done"]}
    assert BuildJob.objects.get(parent=parent).attempt == 2


# -- depth and circles ---------------------------------------------------------------


def test_a_child_deeper_than_allowed_is_refused_and_its_parent_can_go_on(
    settings: Any,
) -> None:
    settings.BUILDQUEUE = {**settings.BUILDQUEUE, "CHILD_DEPTH": 2}
    line = [_running()]
    for _ in range(2):
        line.append(_running(line[-1]))
    last = _context(line[-1])

    with pytest.raises(Refused, match="CHILD_DEPTH") as refused:
        last.spawn("deeper", Probe())
    allowed = _context(line[1]).spawn("beside", Probe())

    assert refused.value.code == "child_depth"
    assert not BuildJob.objects.filter(parent=line[2]).exists()
    assert not Checkpoint.objects.filter(job=line[2]).exists()
    assert BuildJob.objects.get(pk=allowed).parent_id == line[1].pk
    assert report(line[2], Done()).status == JobStatus.DONE


def _close_circle(*jobs: BuildJob) -> None:
    for job, parent in zip(jobs, (*jobs[1:], jobs[0]), strict=True):
        BuildJob.objects.filter(pk=job.pk).update(parent=parent)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_circle_made_by_raw_sql_is_cancelled_and_does_not_hang(size: int) -> None:
    jobs = [_running() for _ in range(size)]
    _close_circle(*jobs)
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '30s'")

    verbs.cancel(jobs[0].pk, actor=ANNA)

    assert _statuses(jobs) == ["cancelled"] * size
    assert recovery.repair_pairs() == 0
    with pytest.raises(Refused, match="retry that one"):
        verbs.retry(jobs[0].pk, actor=ANNA)


def test_in_a_circle_no_child_is_enqueued_for_ever() -> None:
    jobs = [_running() for _ in range(2)]
    _close_circle(*jobs)

    with pytest.raises(Refused) as refused:
        enqueueing.enqueue(Probe(), parent=fresh(jobs[0]))

    assert refused.value.code == "child_depth"


# -- locks ---------------------------------------------------------------------------


def test_a_parent_cancelled_while_its_children_end_never_deadlocks() -> None:
    for number in range(100):
        parent, children = _family(2, "fail" if number % 2 else "collect")

        def act(
            racer: int, parent: BuildJob = parent, children: list[BuildJob] = children
        ) -> None:
            try:
                if racer == 2:
                    verbs.cancel(parent.pk, actor=ANNA, reason="race")
                else:
                    report(children[racer], Fail(reason="no") if racer else Done())
            except (LostLeaseError, InvalidTransition):
                pass  # somebody was faster, which is the point

        race(3, act)

        assert fresh(parent).status in {"cancelled", "failed"}
        assert all(fresh(child).is_final for child in children)


def test_a_whole_tree_that_ends_from_both_ends_never_deadlocks() -> None:
    for _ in range(25):
        line = _tree(3)

        def act(racer: int, line: list[BuildJob] = line) -> None:
            try:
                if racer == 0:
                    verbs.cancel(line[0].pk, actor=ANNA)
                elif racer == 1:
                    report(line[-1], Fail(reason="no"))
                else:
                    recovery.repair_pairs()
            except (LostLeaseError, InvalidTransition):
                pass  # somebody was faster

        race(3, act)
        recovery.repair_pairs()

        assert all(fresh(job).is_final for job in line)
        for job in line:
            assert sum(kind in ENDS for kind in kinds(job)) == 1


ENDS = {"finish", "fail", "cancel", "child_failed", "force_fail"}


# -- what a crash leaves behind ------------------------------------------------------


@contextmanager
def _by_raw_sql() -> Iterator[Any]:
    with connection.cursor() as cursor:
        yield cursor


def _end_by_sql(job: BuildJob, status: str) -> None:
    with _by_raw_sql() as cursor:
        cursor.execute(
            "UPDATE buildqueue_buildjob SET status = %s, completed_at = now(), "
            "lease_id = NULL, lease_until = NULL, slot = NULL, worker = NULL "
            "WHERE id = %s",
            [status, job.pk],
        )


def _unwoken_by_children() -> tuple[BuildJob, str]:
    parent, [child] = _family(1)
    _end_by_sql(child, "done")
    return parent, "pending"


def _unfailed_by_child() -> tuple[BuildJob, str]:
    parent, [child, other] = _family(2)
    _end_by_sql(child, "failed")
    _end_by_sql(other, "done")
    return parent, "failed"


def _undecided() -> tuple[BuildJob, str]:
    job = make_job(JobStatus.WAITING_APPROVAL)
    make_action(job, "approved")
    return job, "pending"


def _orphan() -> tuple[BuildJob, str]:
    parent = make_job(JobStatus.CANCELLED)
    return make_job(JobStatus.SCHEDULED, parent=parent), "cancelled"


def _expired() -> tuple[BuildJob, str]:
    job = make_job(JobStatus.WAITING_APPROVAL)
    action = make_action(job)
    with _by_raw_sql() as cursor:
        cursor.execute(
            "UPDATE buildqueue_jobaction SET expires_at = now() - interval '1 s' "
            "WHERE id = %s",
            [action.pk],
        )
    return job, "pending"


HALVES = [_unwoken_by_children, _unfailed_by_child, _undecided, _orphan, _expired]


@pytest.mark.parametrize("make", HALVES)
def test_what_a_crash_has_left_half_done_is_made_whole_once(make: Any) -> None:
    job, status = make()

    assert recovery.repair_pairs() == 1
    assert fresh(job).status == status
    events = kinds(job)
    assert recovery.repair_pairs() == 0

    assert fresh(job).status == status
    assert kinds(job) == events


def test_an_effect_whose_run_is_gone_is_said_to_be_of_unknown_outcome_once() -> None:
    job = _running()
    action = make_action(job, "executing")
    _end_by_sql(job, "failed")
    running = _running()
    alive = make_action(running, "executing")

    assert recovery.repair_pairs() == 1
    assert recovery.repair_pairs() == 0

    action.refresh_from_db()
    alive.refresh_from_db()
    assert (action.status, alive.status) == ("outcome_unknown", "executing")
    assert kinds(job) == ["action_outcome_unknown"]


def test_the_children_of_children_are_reached_by_the_next_look() -> None:
    top = make_job(JobStatus.FAILED)
    middle = make_job(JobStatus.WAITING_CHILDREN, parent=top)
    bottom = make_job(parent=middle)

    while recovery.repair_pairs():
        pass

    assert _statuses([middle, bottom]) == ["cancelled", "cancelled"]


def test_two_that_repair_at_once_do_each_once() -> None:
    for _ in range(5):
        made = [make()[0] for make in HALVES for _ in range(2)]

        repaired = race(2, lambda _: recovery.repair_pairs())

        assert sum(repaired) == len(made)
        for job in made:
            told = kinds(job)
            assert len(told) == len(set(told)), told
        assert recovery.repair_pairs() == 0
        BuildJob.objects.exclude(status__in=sorted(FINAL)).update(held=True)


def test_a_child_alone_is_not_retried_while_its_parent_has_ended() -> None:
    parent = make_job(JobStatus.FAILED)
    child = make_job(JobStatus.CANCELLED, parent=parent)

    with pytest.raises(Refused) as refused:
        verbs.retry(child.pk, actor=ANNA)

    assert refused.value.code == "parent_ended"
    assert refused.value.extra == {"parent": str(parent.pk)}
    child.refresh_from_db()
    assert child.status == JobStatus.CANCELLED


def test_a_retry_that_is_refused_leaves_the_children_as_they_were() -> None:
    parent = make_job(JobStatus.FAILED)
    child = make_job(JobStatus.FAILED, parent=parent)
    make_action(parent, ActionStatus.OUTCOME_UNKNOWN)

    with pytest.raises(Refused) as refused:
        verbs.retry(parent.pk, actor=ANNA)

    assert refused.value.code == "outcome_unknown"
    assert (fresh(parent).status, fresh(child).status) == ("failed", "failed")
    assert kinds(child) == []


def test_a_duty_in_the_middle_of_a_retry_undoes_nothing(add_kind: AddKind) -> None:
    def look(job: BuildJob) -> None:
        [found] = race(1, lambda _: recovery.repair_pairs())
        assert found == 0

    kind = add_kind(on_reopen=look)
    parent = make_job(JobStatus.CANCELLED, payload={"kind": kind})
    child = make_job(JobStatus.CANCELLED, parent=parent)

    verbs.retry(parent.pk, actor=ANNA)

    assert (fresh(parent).status, fresh(child).status) == ("pending", "pending")
    told = JobEvent.objects.get(job_id=parent.pk, kind="retry")
    assert told.detail == {"children": 1}
