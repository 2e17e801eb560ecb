"""Does a worker get over the loss of its connections? The poll is a minute."""

from __future__ import annotations

from pathlib import Path

from django.db import connection

from buildqueue.models import JobRun
from buildqueue.states import JobStatus, RunOutcome, WorkerStatus
from tests.host.models import Effect
from tests.support.jobs import enqueue, runs, text, wait_for, wait_running
from tests.support.processes import Workers
from tests.support.waiting import wait_until

SOON = 30.0


def sever() -> int:
    """End every other session on the test's database, as a restart would."""
    statement = """
        SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
    """
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return int(cursor.fetchone()[0])


def listening() -> bool:
    statement = """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE '%%WITH beat AS%%'
          AND state = 'idle' AND pid <> pg_backend_pid()
    """
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return bool(cursor.fetchone()[0])


def test_a_job_whose_connections_are_severed_is_done_once(
    workers: Workers, tmp_path: Path
) -> None:
    worker = workers.start("--slots", "2")
    told = tmp_path / "told"
    job = enqueue("hang_until_told", path=str(told))
    wait_running(job)
    assert sever() >= 4  # the listener, two slots, the duties
    told.touch()
    assert wait_for(job).status == JobStatus.DONE
    assert [run.outcome for run in runs(job)] == [RunOutcome.SUCCEEDED]
    wait_until(listening, message=worker.output)
    for _ in range(3):
        wait_for(enqueue("ok"), timeout=SOON)
    assert worker.row.status == WorkerStatus.RUNNING
    assert worker.popen.poll() is None


def test_jobs_are_done_while_connections_are_severed_again_and_again(
    workers: Workers,
) -> None:
    worker = workers.start("--slots", "2")
    other = workers.start("--slots", "2")
    jobs = [enqueue("ok", label=f"job {n}") for n in range(150)]
    for quarter in (20, 60, 100):
        wait_for(jobs[quarter])
        sever()
    for job in jobs:
        assert wait_for(job, timeout=120).status == JobStatus.DONE, worker.output()
    succeeded = JobRun.objects.filter(outcome=RunOutcome.SUCCEEDED)
    assert succeeded.count() == len(jobs)
    assert Effect.objects.values("label").distinct().count() == len(jobs)
    for each in (worker, other):
        assert each.popen.poll() is None
    wait_for(enqueue("ok"), timeout=SOON)


def test_output_printed_while_the_database_was_away_is_kept(
    workers: Workers, tmp_path: Path
) -> None:
    workers.start()
    told = tmp_path / "told"
    first = enqueue("print_without_newline", path=str(told))
    wait_running(first)
    for _ in range(3):
        sever()
    told.touch()
    assert wait_for(first).status == JobStatus.DONE
    second = enqueue("print", lines=5)
    wait_for(second)
    wait_until(lambda: text(first) == "is it alive?", message=lambda: text(first))
    wait_until(lambda: "out 4\n" in text(second), message=lambda: text(second))
