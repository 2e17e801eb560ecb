"""Is every job done once when workers are killed at their work?"""

from __future__ import annotations

import signal
from collections import Counter

import pytest
from django.db import connection

from buildqueue.models import BuildJob, JobRun, Worker
from buildqueue.queue import enqueueing
from buildqueue.states import JobStatus, RunOutcome, WorkerStatus
from tests.host.jobs import Once
from tests.host.models import Effect
from tests.support.processes import Workers
from tests.support.waiting import wait_until

JOBS = 2_000


def done() -> int:
    return BuildJob.objects.filter(status=JobStatus.DONE).count()


@pytest.mark.slow
def test_two_of_four_workers_are_killed_and_every_job_is_done_once(
    workers: Workers,
) -> None:
    statement = """
        INSERT INTO buildqueue_buildjob (payload)
        SELECT jsonb_build_object('kind', 'once', 'label', 'job ' || n)
        FROM generate_series(1, %s) AS n
    """
    with connection.cursor() as cursor:
        cursor.execute(statement, [JOBS])
    four = [workers.start("--slots", "2", ready=False) for _ in range(4)]
    for victim, moment in ((four[0], 300), (four[1], 600)):
        wait_until(lambda least=moment: done() >= least, message=done)
        victim.signal(signal.SIGKILL)
        victim.wait()
    wait_until(lambda: done() == JOBS, timeout=240, message=done)

    runs = JobRun.objects.values_list("job_id", "outcome")
    succeeded = Counter(job for job, outcome in runs if outcome == RunOutcome.SUCCEEDED)
    assert len(succeeded) == JOBS
    assert set(succeeded.values()) == {1}
    others = {outcome for _, outcome in runs} - {RunOutcome.SUCCEEDED}
    assert others <= {RunOutcome.LOST, RunOutcome.CRASHED}
    labels = Counter(Effect.objects.values_list("label", flat=True))
    assert len(labels) == JOBS
    assert set(labels.values()) == {1}
    lost = Worker.objects.filter(status=WorkerStatus.LOST)
    wait_until(lambda: lost.count() == 2, message=lost.count)
    assert {worker.pid for worker in lost} == {four[0].pid, four[1].pid}
    for survivor in four[2:]:
        assert survivor.popen.poll() is None


def test_jobs_of_one_priority_run_in_the_order_of_arrival(workers: Workers) -> None:
    for number in range(200):
        enqueueing.enqueue(Once(label=f"{number:03}"))
    workers.start("--slots", "1", "--burst", ready=False).wait()
    labels = list(Effect.objects.order_by("pk").values_list("label", flat=True))
    assert labels == sorted(labels)
    assert len(labels) == 200
