"""What does a worker do while PostgreSQL is down, frozen, full or rude to it?"""

from __future__ import annotations

import re
import signal
from pathlib import Path

import psutil
import pytest
from django.db import connection

from buildqueue.models import JobRun
from buildqueue.states import JobStatus, RunOutcome, WorkerStatus
from tests.host.models import Effect
from tests.support.jobs import enqueue, runs, wait_for, wait_running
from tests.support.processes import RunningWorker, Workers
from tests.support.servers import ROLE, Server
from tests.support.waiting import wait_until

SOON = 30.0  # half a poll
SHORT = {"LEASE_SECONDS": 3.0, "RENEWAL_SECONDS": 1.0}
BEGUN, OVER = "no use of the database", "the database is back after"


def told(worker: RunningWorker) -> tuple[int, int]:
    """Return how often the worker spoke of an outage's begin, and of its end."""
    output = worker.output()
    return output.count(BEGUN), output.count(OVER)


def is_over(worker: RunningWorker) -> bool:
    begun, over = told(worker)
    return begun == over >= 1


def sessions() -> list[int]:
    """Return the server processes of every other session on the test's database."""
    statement = """
        SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
          AND backend_type = 'client backend'
    """
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return [row[0] for row in cursor.fetchall()]


@pytest.mark.parametrize("how", [signal.SIGQUIT, signal.SIGINT], ids=lambda s: s.name)
def test_a_restart_of_the_server_is_told_once_and_the_job_goes_on(
    server: Server, workers: Workers, tmp_path: Path, how: signal.Signals
) -> None:
    worker = workers.start("--slots", "2")
    go_on = tmp_path / "told"
    job = enqueue("hang_until_told", path=str(go_on))
    wait_running(job)
    server.stop(how=how)
    wait_until(lambda: BEGUN in worker.output(), message=worker.output)
    server.start()
    connection.close()
    wait_until(lambda: is_over(worker), message=worker.output)
    go_on.touch()
    assert wait_for(job).status == JobStatus.DONE
    assert [run.outcome for run in runs(job)] == [RunOutcome.SUCCEEDED]
    for _ in range(3):
        assert wait_for(enqueue("ok"), timeout=SOON).status == JobStatus.DONE
    assert told(worker) == (1, 1), worker.output()
    wait_until(lambda: worker.row.status == WorkerStatus.RUNNING, message=worker.row)


def test_a_worker_stops_in_good_order_while_the_server_is_down(
    server: Server, workers: Workers
) -> None:
    worker = workers.start()
    wait_for(enqueue("ok"))
    server.stop()
    wait_until(lambda: BEGUN in worker.output(), message=worker.output)
    worker.signal(signal.SIGTERM)
    try:
        assert worker.wait() == 0, worker.output()
        assert worker.all_gone()
    finally:
        server.start()
        connection.close()


def test_a_server_frozen_for_longer_than_the_lease_ends_the_run_and_no_worker(
    server: Server, workers: Workers
) -> None:
    worker = workers.start("--slots", "1", **SHORT)
    job = enqueue("hang", until_attempt=1)
    process = psutil.Process(wait_running(job).pid)
    server.freeze()
    try:
        wait_until(lambda: not process.is_running(), message=worker.output)
    finally:
        server.thaw()
    assert wait_for(job).status == JobStatus.DONE
    first, second = runs(job)
    assert (first.outcome, second.outcome) == (RunOutcome.LOST, RunOutcome.SUCCEEDED)
    assert Effect.objects.count() == 1
    assert wait_for(enqueue("ok"), timeout=SOON).status == JobStatus.DONE
    assert worker.popen.poll() is None


def test_every_session_may_be_ended_one_after_the_other_while_jobs_run(
    workers: Workers, tmp_path: Path
) -> None:
    worker = workers.start("--slots", "2")
    go_on = tmp_path / "told"
    waits = enqueue("hang_until_told", path=str(go_on))
    wait_running(waits)
    ended: set[int] = set()
    while left := [pid for pid in sessions() if pid not in ended][:1]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", left)
        ended |= set(left)
        assert wait_for(enqueue("ok"), timeout=SOON).status == JobStatus.DONE
        if len(ended) == 25:
            break
    assert len(ended) >= 5, worker.output()  # each part had one at least
    go_on.touch()
    assert wait_for(waits).status == JobStatus.DONE
    assert [run.outcome for run in runs(waits)] == [RunOutcome.SUCCEEDED]
    succeeded = JobRun.objects.filter(outcome=RunOutcome.SUCCEEDED)
    assert succeeded.count() == len(ended) + 1
    assert worker.row.status == WorkerStatus.RUNNING


def test_sessions_that_are_cut_when_idle_are_made_anew_without_a_word(
    server: Server, workers: Workers
) -> None:
    server.ask(f"ALTER ROLE {ROLE} SET idle_session_timeout = '300ms'")
    try:
        worker = workers.start("--slots", "2")
        for _ in range(8):
            connection.close()
            job = enqueue("hang", seconds=0.4)
            connection.close()
            assert _is_done(server, job.pk), worker.output()
        assert BEGUN not in worker.output()
        assert worker.popen.poll() is None
    finally:
        server.ask(f"ALTER ROLE {ROLE} RESET idle_session_timeout")
        connection.close()


def _is_done(server: Server, job: object) -> bool:
    done = f"SELECT count(*) FROM buildqueue_buildjob WHERE id = '{job}'"
    return bool(
        wait_until(
            lambda: server.ask(f"{done} AND status = 'done'"),
            timeout=SOON,
            message=lambda: server.ask(f"{done}"),
        )
    )


def test_a_role_that_has_no_connection_left_waits_for_one_and_says_so_once(
    server: Server, workers: Workers
) -> None:
    server.ask("CREATE ROLE narrow LOGIN PASSWORD 'narrow' CONNECTION LIMIT 2")
    server.ask(f"GRANT {ROLE} TO narrow")
    server.ask("ALTER ROLE narrow SET role = 'owner'")
    narrow = server.settings | {"USER": "narrow", "PASSWORD": "narrow"}
    worker = workers.start("--slots", "2", ready=False, databases={"default": narrow})
    wait_until(lambda: BEGUN in worker.output(), message=worker.output)
    assert "too many connections" in worker.output()
    server.ask("ALTER ROLE narrow CONNECTION LIMIT 60")
    wait_until(lambda: is_over(worker), message=worker.output)
    assert wait_for(enqueue("ok")).status == JobStatus.DONE
    assert told(worker) == (1, 1), worker.output()
    lines = re.findall("too many connections", worker.output())
    assert len(lines) == 1, worker.output()
