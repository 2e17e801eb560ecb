"""Is what is made of several transactions made whole, wherever its process is killed?

As in `test_crash_points`, but between two commits a half is there for others to see: the
duty that looks for halves, or the next call, makes the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from buildqueue import states
from buildqueue.models import BuildJob, JobEvent
from buildqueue.queue import recovery, retention, transitions, verbs
from buildqueue.queue.outcomes import Actor, WaitForChildren
from buildqueue.states import JobStatus
from tests.factories import make_job
from tests.support.jobs import fresh, kinds
from tests.support.killing import MOST, Act, Holds, killed_before
from tests.support.turns import report

pytestmark = pytest.mark.usefixtures("committed")

ANNA = Actor(label="anna", id="7")


def _repaired(make: Callable[[], Act], done: Holds) -> None:
    """Kill what is made of several transactions; the duty makes the rest."""
    for number in range(1, MOST):
        act = make()
        killed = killed_before(number, act)
        if _status_of_first() != JobStatus.WAITING_CHILDREN:
            recovery.repair_pairs()
            assert done(), f"not made whole when killed before statement {number}"
        if not killed:
            assert done()
            return
    raise AssertionError("it never ends")


def _status_of_first() -> str:
    return BuildJob.objects.filter(parent=None).latest("seq").status


def test_a_cancel_goes_down_the_tree() -> None:
    def make() -> Act:
        parent = make_job(JobStatus.IN_PROGRESS)
        for _ in range(2):
            child = make_job(parent=parent)
            make_job(parent=child)
        report(parent, WaitForChildren())
        return lambda: verbs.cancel(parent.pk, actor=ANNA)

    def done() -> bool:
        recovery.repair_pairs()  # grandchildren: one generation a look
        recovery.repair_pairs()
        tops = BuildJob.objects.filter(status="cancelled", parent=None)
        families = BuildJob.objects.filter(parent__in=tops)
        return not families.exclude(status="cancelled").exists()

    _repaired(make, done)


def test_old_jobs_leave_in_whole_chunks() -> None:
    long_ago = timezone.now() - timedelta(days=1000)
    for _ in range(3):
        job = make_job(JobStatus.DONE, created_at=long_ago, completed_at=long_ago)
        transitions.record(job, states.FINISH.name)
    for number in range(1, MOST):
        killed = killed_before(number, retention.prune)
        assert BuildJob.objects.count() in {0, 3}
        assert JobEvent.objects.count() == BuildJob.objects.count()
        if not killed:
            break
    assert BuildJob.objects.count() == 0


def test_of_many_retried_those_so_far_are_and_the_rest_untouched() -> None:
    seen = set()
    for number in range(1, MOST):
        jobs = [make_job(JobStatus.FAILED) for _ in range(3)]
        ids = [job.pk for job in jobs]

        def act(ids: Any = ids) -> object:
            return verbs.retry_many(ids, actor=ANNA, reason="again")

        killed = killed_before(number, act)
        done = [fresh(job).status == "pending" for job in jobs]
        assert done == sorted(done, reverse=True)
        assert [kinds(job) == ["retry"] for job in jobs] == done
        seen.add(sum(done))
        if not killed:
            break
    assert seen == {0, 1, 2, 3}
