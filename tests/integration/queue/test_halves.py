"""Is what a crash has left half done made whole by a duty, and once?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection

from buildqueue.models import BuildJob
from buildqueue.queue import recovery
from buildqueue.states import FINAL, JobStatus
from tests.factories import make_job
from tests.support.decisions import make_action
from tests.support.families import family, running_job, statuses_of
from tests.support.jobs import fresh, kinds
from tests.support.races import race

pytestmark = pytest.mark.usefixtures("committed")


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
    parent, [child] = family(1)
    _end_by_sql(child, "done")
    return parent, "pending"


def _unfailed_by_child() -> tuple[BuildJob, str]:
    parent, [child, other] = family(2)
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
    job = running_job()
    action = make_action(job, "executing")
    _end_by_sql(job, "failed")
    running = running_job()
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

    assert statuses_of([middle, bottom]) == ["cancelled", "cancelled"]


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
