"""Does a worker do its work behind a PgBouncer in transaction mode?"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from buildqueue.states import JobStatus, RunOutcome, WorkerStatus
from tests.support import poolers
from tests.support.jobs import enqueue, runs, text, wait_for, wait_running
from tests.support.processes import RunningWorker, Workers
from tests.support.servers import Server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(poolers.MISSING, reason=poolers.WHY_NOT)

LONG = {"LEASE_SECONDS": 600.0, "RENEWAL_SECONDS": 200.0}
SHORT = {"LEASE_SECONDS": 3.0, "RENEWAL_SECONDS": 1.0}
POLLING = {"POLL_SECONDS_WITHOUT_LISTEN": 0.2}


@pytest.fixture
def pooled(server: Server) -> Iterator[dict[str, Any]]:
    with poolers.pooler(server) as settings:
        yield settings


class Start:
    """Starts workers that reach the server by the pooler."""

    def __init__(self, workers: Workers, folder: Path, pooled: dict[str, Any]) -> None:
        self._workers, self._folder, self._pooled = workers, folder, pooled

    def __call__(self, *arguments: str, **settings: Any) -> RunningWorker:
        file = self._folder / f"ready-{len(self._workers.started)}"
        worker = self._workers.start(
            *arguments,
            f"--ready-file={file}",
            ready=False,
            databases={"default": self._pooled},
            **POLLING | settings,
        )
        wait_until(file.exists, message=worker.output)
        return worker


@pytest.fixture
def start(workers: Workers, tmp_path: Path, pooled: dict[str, Any]) -> Start:
    return Start(workers, tmp_path, pooled)


def _advisory_locks(server: Server) -> int:
    return int(
        server.ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") or 0
    )


def test_the_worker_sees_the_pooler_polls_and_holds_no_session_lock(
    server: Server, start: Start
) -> None:
    worker = start("--slots", "2")
    jobs = [enqueue("print", lines=3) for _ in range(20)]
    for job in jobs:
        assert wait_for(job).status == JobStatus.DONE, worker.output()
    wait_until(lambda: "out 2\n" in text(jobs[-1]), message=lambda: text(jobs[-1]))
    assert not worker.row.direct
    assert worker.output().count("behind a pooler: polling only") == 1
    # The duties' guard is there for a moment, and of a transaction.
    wait_until(lambda: _advisory_locks(server) == 0, message="a lock is left")
    prepared = "SELECT count(*) FROM pg_stat_activity WHERE query ILIKE 'PREPARE%'"
    assert server.ask(prepared) == 0
    assert "prepared statement" not in worker.output()
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.output()
    assert worker.row.status == WorkerStatus.STOPPED
    wait_until(lambda: _advisory_locks(server) == 0, message="a lock is left")


def test_a_slot_that_dies_is_rescued_at_once(start: Start) -> None:
    worker = start("--slots", "2", **LONG)
    job = enqueue("kill", until_attempt=2)
    assert wait_for(job).status == JobStatus.DONE, worker.output()
    outcomes = [run.outcome for run in runs(job)]
    assert outcomes == [RunOutcome.CRASHED] * 2 + [RunOutcome.SUCCEEDED]


def test_a_longer_job_is_handed_back_at_the_stop(start: Start) -> None:
    worker = start("--drain", "0.2", **LONG)
    job = enqueue("hang")
    wait_running(job)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.output()
    assert wait_for(job, JobStatus.PENDING).crashes == 0


def test_a_worker_that_is_killed_is_found_by_its_lease(start: Start) -> None:
    first = start(**SHORT)
    job = enqueue("hang", until_attempt=1)
    wait_running(job)
    second = start(**SHORT)
    first.signal(signal.SIGKILL)
    first.wait()
    assert wait_for(job).status == JobStatus.DONE, second.output()
    lost, succeeded = runs(job)
    assert (lost.outcome, lost.error_code) == (RunOutcome.LOST, "lease_over")
    assert succeeded.worker == second.row.pk


def test_a_direct_alias_beside_the_pooler_is_as_good_as_no_pooler(
    server: Server, workers: Workers, pooled: dict[str, Any]
) -> None:
    both = {"default": pooled, "direct": server.settings}
    chosen = LONG | {"DIRECT_DATABASE": "direct"}
    first = workers.start(databases=both, **chosen)
    job = enqueue("hang", until_attempt=1)
    wait_running(job)
    second = workers.start(databases=both, **chosen)
    for worker in (first, second):
        assert "pooler" not in worker.output()
    first.signal(signal.SIGKILL)
    first.wait()
    assert wait_for(job).status == JobStatus.DONE, second.output()
    assert runs(job)[0].error_code == "worker_died"
    dying = enqueue("kill", until_attempt=1)
    assert wait_for(dying).status == JobStatus.DONE, second.output()


def test_a_wrong_direct_alias_is_refused_at_the_start(
    workers: Workers, pooled: dict[str, Any]
) -> None:
    worker = workers.start(
        ready=False, databases={"default": pooled}, DIRECT_DATABASE="dircet"
    )
    assert worker.wait() == 1
    assert "'dircet', and DATABASES has no such alias" in worker.output()
