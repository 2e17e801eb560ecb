"""What does the end of a parent mean for its children, however deep or in a circle?"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, transaction

from buildqueue.exceptions import InvalidTransition, LostLeaseError, Refused
from buildqueue.models import BuildJob, Checkpoint
from buildqueue.queue import enqueueing, recovery, verbs
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import Actor, Done, Fail
from buildqueue.states import JobStatus
from tests.host.jobs import Probe
from tests.support.families import family, running_job, statuses_of, tree
from tests.support.jobs import fresh, kinds
from tests.support.races import race
from tests.support.turns import report

pytestmark = pytest.mark.usefixtures("committed")

ANNA = Actor(label="anna", id="7")


def _context(job: BuildJob) -> Context:
    assert job.lease_id is not None
    return Context(job=job, lease_id=job.lease_id)


# -- a parent that ends --------------------------------------------------------------


def test_a_cancel_goes_down_the_tree() -> None:
    line = tree(3)
    aside = [running_job(parent) for parent in line]

    verbs.cancel(line[0].pk, actor=ANNA, reason="not needed")

    assert statuses_of(line + aside) == ["cancelled"] * 8
    assert recovery.repair_pairs() == 0


def test_a_failure_at_the_bottom_goes_up_the_tree_and_down_its_branches() -> None:
    line = tree(3)
    aside = [running_job(parent) for parent in line[:-1]]

    report(line[-1], Fail(reason="no luck"))

    assert statuses_of(line) == ["failed"] * 4
    assert statuses_of(aside) == ["cancelled"] * 3
    assert [fresh(job).error_code for job in line[:-1]] == ["child_failed"] * 3


@pytest.mark.parametrize("end", ["cancel", "force_fail"])
def test_the_children_of_a_parent_that_a_person_ends_are_cancelled(end: str) -> None:
    parent, children = family(3)

    verbs.VERBS[end][0](parent.pk, actor=ANNA, reason="not needed")

    assert statuses_of(children) == ["cancelled"] * 3


def test_the_children_of_a_paused_parent_go_on() -> None:
    parent, children = family(2)

    verbs.pause(parent.pk, actor=ANNA)

    assert statuses_of(children) == ["in_progress"] * 2
    assert recovery.repair_pairs() == 0


def test_the_child_of_a_done_parent_goes_on() -> None:
    parent = running_job()
    child = running_job(parent)

    report(parent, Done())
    assert recovery.repair_pairs() == 0

    assert fresh(child).status == JobStatus.IN_PROGRESS
    assert report(child, Fail(reason="no")).status == JobStatus.FAILED
    assert fresh(parent).status == JobStatus.DONE


def test_an_end_that_is_rolled_back_cancels_no_children() -> None:
    parent, [child] = family(1)

    with pytest.raises(ZeroDivisionError), transaction.atomic():  # noqa: PT012
        verbs.cancel(parent.pk, actor=ANNA)
        raise ZeroDivisionError

    assert fresh(child).status == JobStatus.IN_PROGRESS
    assert recovery.repair_pairs() == 0


# -- depth and circles ---------------------------------------------------------------


def test_a_child_deeper_than_allowed_is_refused_and_its_parent_can_go_on(
    settings: Any,
) -> None:
    settings.BUILDQUEUE = {**settings.BUILDQUEUE, "CHILD_DEPTH": 2}
    line = [running_job()]
    for _ in range(2):
        line.append(running_job(line[-1]))
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
    jobs = [running_job() for _ in range(size)]
    _close_circle(*jobs)
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '30s'")

    verbs.cancel(jobs[0].pk, actor=ANNA)

    assert statuses_of(jobs) == ["cancelled"] * size
    assert recovery.repair_pairs() == 0
    with pytest.raises(Refused, match="retry that one"):
        verbs.retry(jobs[0].pk, actor=ANNA)


def test_in_a_circle_no_child_is_enqueued_for_ever() -> None:
    jobs = [running_job() for _ in range(2)]
    _close_circle(*jobs)

    with pytest.raises(Refused) as refused:
        enqueueing.enqueue(Probe(), parent=fresh(jobs[0]))

    assert refused.value.code == "child_depth"


# -- locks ---------------------------------------------------------------------------


def test_a_parent_cancelled_while_its_children_end_never_deadlocks() -> None:
    for number in range(100):
        parent, children = family(2, "fail" if number % 2 else "collect")

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
        line = tree(3)

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
