"""Do families of jobs end whatever the number of slots, and whoever is killed?"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from buildqueue.models import BuildJob, JobRun
from buildqueue.queue import enqueueing, verbs
from buildqueue.queue.outcomes import Actor
from buildqueue.states import FINAL, JobStatus
from tests.factories import make_job
from tests.host.jobs import Family
from tests.host.models import Effect
from tests.support.jobs import enqueue, kinds, wait_for, wait_running
from tests.support.processes import Workers
from tests.support.waiting import wait_until

ANNA = Actor(label="anna", id="7")


def _family(**fields: Any) -> BuildJob:
    return enqueueing.enqueue(Family(**fields), max_attempts=5)


def _size(depth: int, children: int) -> int:
    return sum(children**generation for generation in range(depth + 1))


def _all_left_one_effect(jobs: int) -> None:
    labels = Counter(Effect.objects.values_list("label", flat=True))
    assert set(labels.values()) == {1}
    assert len(labels) == jobs


def _none_is_open() -> bool:
    return not BuildJob.objects.exclude(status__in=sorted(FINAL)).exists()


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("slots", [1, 2])
def test_a_waiting_parent_never_keeps_its_children_from_running(
    workers: Workers, slots: int, depth: int
) -> None:
    parents = [_family(depth=depth, label=f"f{number}") for number in range(2)]

    workers.start("--slots", str(slots))

    for parent in parents:
        assert wait_for(parent).result == {"children": ["done", "done"]}
    _all_left_one_effect(2 * _size(depth, 2))
    waited = BuildJob.objects.exclude(attempt=1)
    assert set(waited.values_list("failures", "crashes")) == {(0, 0)}


def test_a_parent_under_a_serial_key_does_not_wait_for_itself(
    workers: Workers,
) -> None:
    parents = [
        enqueueing.enqueue(Family(label=f"f{number}"), serial_key="one")
        for number in range(2)
    ]

    workers.start("--slots", "1")

    for parent in parents:
        assert wait_for(parent).status == JobStatus.DONE


def test_children_that_kill_their_process_hold_up_nobody(workers: Workers) -> None:
    parent = _family(depth=2, deaths=1)

    workers.start("--slots", "2")

    assert wait_for(parent).status == JobStatus.DONE
    _all_left_one_effect(_size(2, 2))
    leaves = BuildJob.objects.filter(payload__depth=0)
    assert set(leaves.values_list("crashes", flat=True)) == {1}


def test_a_child_that_spends_its_allowance_fails_the_family(workers: Workers) -> None:
    parent = enqueueing.enqueue(Family(deaths=99, children=3))

    workers.start("--slots", "1")
    ended = wait_for(parent)
    wait_until(_none_is_open)

    assert (ended.status, ended.error_code) == ("failed", "child_failed")
    children = BuildJob.objects.filter(parent=parent)
    statuses = Counter(children.values_list("status", flat=True))
    assert statuses["done"] == 0
    assert statuses["failed"] >= 1


def test_a_family_goes_on_after_every_process_was_killed(
    workers: Workers, tmp_path: Path
) -> None:
    told = tmp_path / "go on"
    parent = _family(depth=2, path=str(told))
    first = workers.start("--slots", "2")
    wait_until(
        lambda: (
            BuildJob.objects.filter(status="in_progress", payload__depth=0).count() == 2
        )
    )

    first.signal(signal.SIGKILL)
    wait_until(first.all_gone)
    told.touch()
    workers.start("--slots", "1")

    assert wait_for(parent).status == JobStatus.DONE
    _all_left_one_effect(_size(2, 2))


def test_slots_killed_at_random_leave_no_parent_asleep(workers: Workers) -> None:
    parents = [_family(depth=2, label=f"f{number}") for number in range(4)]
    for parent in parents:
        BuildJob.objects.filter(pk=parent.pk).update(max_attempts=100)
    worker = workers.start("--slots", "2")
    for _ in range(8):
        running = JobRun.objects.filter(ended_at=None, pid__isnull=False)
        found = wait_until(lambda running=running: running.first() or _none_is_open())
        if not isinstance(found, JobRun) or found.pid is None:
            break
        if found.pid in {process.pid for process in worker.below()}:
            os.kill(found.pid, signal.SIGKILL)

    for parent in parents:
        assert wait_for(parent, timeout=120).status == JobStatus.DONE
    _all_left_one_effect(4 * _size(2, 2))


def test_a_cancelled_parent_ends_the_processes_of_its_children(
    workers: Workers, tmp_path: Path
) -> None:
    parent = _family(depth=1, path=str(tmp_path / "never"))
    workers.start("--slots", "2")
    wait_for(parent, JobStatus.WAITING_CHILDREN)
    children = list(BuildJob.objects.filter(parent=parent))
    for child in children:
        wait_running(child)

    verbs.cancel(parent.pk, actor=ANNA, reason="not needed")

    wait_until(lambda: not JobRun.objects.filter(ended_at=None).exists())
    assert wait_for(enqueue("ok")).status == JobStatus.DONE
    for child in children:
        assert wait_for(child).status == JobStatus.CANCELLED
    assert not Effect.objects.filter(label__startswith="family").exists()


def test_a_running_worker_makes_whole_what_others_left_without_any_start(
    workers: Workers,
) -> None:
    workers.start("--slots", "1")
    asleep = make_job(
        JobStatus.WAITING_CHILDREN, payload=Family(depth=0).model_dump(mode="json")
    )
    make_job(JobStatus.DONE, parent=asleep)
    orphan = make_job(
        JobStatus.PAUSED, parent=make_job(JobStatus.FAILED), max_attempts=1
    )
    left = make_job(JobStatus.IN_PROGRESS)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE buildqueue_buildjob SET lease_until = now() WHERE id = %s",
            [left.pk],
        )

    assert wait_for(asleep).status == JobStatus.DONE
    assert wait_for(orphan).status == JobStatus.CANCELLED
    assert wait_for(left).status == JobStatus.DONE
    assert kinds(asleep) == ["wake", "claim", "step_started", "step_finished", "finish"]
    assert kinds(left)[0] == "rescue"
