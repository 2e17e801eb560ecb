"""Does a person's word end a running process, and stand?"""

from __future__ import annotations

import uuid
from collections.abc import Callable

import psutil
import pytest
from django.db import connection

from buildqueue.models import BuildJob, JobRun
from buildqueue.queue import verbs
from buildqueue.queue.outcomes import Actor
from buildqueue.states import JobStatus, RunOutcome
from tests.factories import make_agent
from tests.host.jobs import Behavior
from tests.host.models import Effect
from tests.support.jobs import enqueue, runs, wait_for, wait_running
from tests.support.processes import RunningWorker, Workers
from tests.support.waiting import wait_until

PERSON = Actor(label="person", id="7")


def _ended(job: BuildJob, worker: RunningWorker) -> JobRun:
    """Return the job's first run, once its process and all below are gone."""
    first = JobRun.objects.filter(job_id=job.pk, attempt=1)
    closed = first.filter(ended_at__isnull=False)
    wait_until(closed.exists, message=worker.output)
    run = first.get()
    assert run.pid is not None
    assert not psutil.pid_exists(run.pid)
    assert not worker.find("grandchild")
    return run


@pytest.mark.parametrize("behavior", ["hang_with_children", "hang_in_c", "ignore_term"])
@pytest.mark.parametrize(
    ("verb", "status"),
    [(verbs.cancel, JobStatus.CANCELLED), (verbs.force_fail, JobStatus.FAILED)],
)
def test_an_ended_job_stays_as_the_person_wanted(
    workers: Workers,
    behavior: Behavior,
    verb: Callable[..., BuildJob],
    status: JobStatus,
) -> None:
    worker = workers.start("--slots", "1")
    job = enqueue(behavior, label="grandchild")
    wait_running(job)
    verb(job.pk, actor=PERSON, reason="enough")
    run = _ended(job, worker)
    assert (run.outcome, run.error_code) == (RunOutcome.INTERRUPTED, "revoked")
    after = enqueue("ok", label="after")
    wait_for(after)
    job.refresh_from_db()
    assert (job.status, job.attempt, job.crashes) == (status, 1, 0)
    assert not Effect.objects.filter(label="grandchild").exists()


@pytest.mark.parametrize("behavior", ["hang_with_children", "hang_in_c", "ignore_term"])
def test_a_released_job_runs_again_when_its_first_process_is_dead(
    workers: Workers, behavior: Behavior
) -> None:
    worker = workers.start("--slots", "2")
    job = enqueue(behavior, label="grandchild", until_attempt=1)
    wait_running(job)
    verbs.release(job.pk, actor=PERSON, reason="again")
    assert wait_for(job).status == JobStatus.DONE
    _ended(job, worker)
    first, second = runs(job)
    assert first.outcome == RunOutcome.INTERRUPTED
    assert first.ended_at is not None
    assert second.started_at > first.ended_at
    job.refresh_from_db()
    assert (job.failures, job.crashes) == (0, 0)


@pytest.mark.parametrize("table", ["buildqueue_buildjob", "buildqueue_agent"])
def test_a_row_deleted_under_a_run_ends_its_process(
    workers: Workers, table: str
) -> None:
    worker = workers.start("--slots", "1")
    agent = make_agent()
    job = enqueue(
        "hang_with_children", label="grandchild", options={"agent_id": agent.pk}
    )
    pid = wait_running(job).pid
    wait_until(lambda: worker.find("grandchild"), message=worker.output)
    target: uuid.UUID = job.pk if table.endswith("job") else agent.pk
    with connection.cursor() as cursor:
        cursor.execute("SET buildqueue.retention = 'on'")
        cursor.execute(f"DELETE FROM {table} WHERE id = %s", [target])
    wait_until(lambda: pid and not psutil.pid_exists(pid), message=worker.output)
    assert not worker.find("grandchild")
    assert not BuildJob.objects.filter(pk=job.pk).exists()
    assert wait_for(enqueue("ok")).status == JobStatus.DONE
    assert worker.popen.poll() is None


def test_a_job_over_its_time_limit_is_ended_and_tried_again(workers: Workers) -> None:
    worker = workers.start("--slots", "1")
    job = enqueue(
        "hang_with_children", kind="limited_probe", label="grandchild", until_attempt=1
    )
    assert wait_for(job).status == JobStatus.DONE
    first, second = runs(job)
    assert (first.outcome, first.error_code) == (RunOutcome.TIMED_OUT, "timed_out")
    assert "limit of 1 s" in (first.error_msg or "")
    assert second.outcome == RunOutcome.SUCCEEDED
    assert wait_for(job).crashes == 1
    assert not worker.find("grandchild")
