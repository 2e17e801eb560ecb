"""What becomes of running jobs when a worker is told to stop?"""

from __future__ import annotations

import signal
from pathlib import Path

from buildqueue.models import BuildJob, JobRun
from buildqueue.states import JobStatus, RunOutcome, WorkerStatus
from tests.support.jobs import enqueue, runs, wait_for, wait_running
from tests.support.processes import RunningWorker, Workers
from tests.support.waiting import wait_until


def _draining(worker: RunningWorker) -> None:
    worker.signal(signal.SIGTERM)
    wait_until(lambda: "stopping:" in worker.output(), message=worker.output)


def test_a_job_that_ends_within_the_drain_ends_in_the_same_attempt(
    workers: Workers, tmp_path: Path
) -> None:
    worker = workers.start()
    told = tmp_path / "told"
    job = enqueue("hang_until_told", path=str(told))
    wait_running(job)
    _draining(worker)
    behind = enqueue("ok")
    told.touch()
    assert worker.wait() == 0, worker.output()
    assert wait_for(job).status == JobStatus.DONE
    assert [run.outcome for run in runs(job)] == [RunOutcome.SUCCEEDED]
    behind.refresh_from_db()
    # Taken in the very moment of the stop it goes straight back, and nothing counts.
    assert behind.status == JobStatus.PENDING
    assert (behind.failures, behind.crashes) == (0, 0)
    assert {run.outcome for run in runs(behind)} <= {RunOutcome.RELEASED}
    assert worker.row.status == WorkerStatus.STOPPED
    assert worker.all_gone()


def _is_handed_back(job: BuildJob) -> JobRun:
    job.refresh_from_db()
    assert job.status == JobStatus.PENDING
    assert (job.attempt, job.failures, job.crashes) == (1, 0, 0)
    assert job.error_msg is None
    (run,) = runs(job)
    assert run.outcome == RunOutcome.RELEASED
    assert run.ended_at
    return run


def test_a_longer_job_is_handed_back_and_nothing_is_counted(workers: Workers) -> None:
    worker = workers.start("--drain", "0.5")
    job = enqueue("hang_with_children", label="left")
    wait_running(job)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.output()
    _is_handed_back(job)
    assert worker.all_gone()


def test_without_a_limit_the_drain_waits_until_the_job_is_done(
    workers: Workers, tmp_path: Path
) -> None:
    worker = workers.start("--drain", "none")
    told = tmp_path / "told"
    job = enqueue("hang_until_told", path=str(told))
    wait_running(job)
    _draining(worker)
    wait_until(lambda: worker.row.status == WorkerStatus.DRAINING, message=worker.row)
    told.touch()
    assert worker.wait() == 0
    assert wait_for(job).status == JobStatus.DONE


def test_a_second_signal_hands_back_at_once_and_tells_by_the_exit_code(
    workers: Workers,
) -> None:
    worker = workers.start("--drain", "none")
    job = enqueue("ignore_term")
    wait_running(job)
    _draining(worker)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 1
    assert _is_handed_back(job).exit_signal == signal.SIGKILL
    assert worker.row.status == WorkerStatus.STOPPED


def test_a_job_claimed_in_the_moment_of_the_stop_goes_back_or_is_done(
    workers: Workers,
) -> None:
    jobs = [enqueue("ok") for _ in range(300)]
    worker = workers.start("--slots", "2", ready=False)
    wait_for(jobs[30])
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.output()
    found = BuildJob.objects.values_list("status", "failures", "crashes")
    assert set(found) <= {("done", 0, 0), ("pending", 0, 0)}
    assert not JobRun.objects.filter(ended_at=None).exists()


def test_two_signals_at_once_end_an_idle_worker(workers: Workers) -> None:
    worker = workers.start("--drain", "none")
    worker.signal(signal.SIGTERM)
    worker.signal(signal.SIGTERM)
    assert worker.wait() in {0, 1}
