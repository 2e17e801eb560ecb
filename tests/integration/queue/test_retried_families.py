"""What does the retry of a parent mean for its children, and when is one refused?"""

from __future__ import annotations

import pytest

from buildqueue.exceptions import Refused
from buildqueue.models import BuildJob, JobEvent
from buildqueue.queue import recovery, verbs
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import Actor, Done, Fail, Outcome, WaitForChildren
from buildqueue.states import ActionStatus, JobStatus
from tests.factories import make_job
from tests.support.decisions import make_action
from tests.support.families import running_job, statuses_of, tree
from tests.support.jobs import fresh, kinds
from tests.support.races import race
from tests.support.turns import report, turn, turns

from .conftest import AddKind

pytestmark = pytest.mark.usefixtures("committed")

ANNA = Actor(label="anna", id="7")


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
    assert statuses_of(children) == ["done", "done"]
    assert [fresh(child).attempt for child in children] == [1, 1]
    assert BuildJob.objects.count() == 3


def test_a_whole_tree_that_did_not_end_done_is_retried_by_its_top() -> None:
    line = tree(3)
    beside = running_job(line[0])
    report(beside, Done())
    report(line[-1], Fail(reason="no luck"))
    assert statuses_of(line) == ["failed"] * 4

    verbs.retry(line[0].pk, actor=ANNA, reason="the power is back")
    assert recovery.repair_pairs() == 0

    assert statuses_of([*line, beside]) == [*["pending"] * 4, "done"]
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
