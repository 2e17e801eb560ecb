"""Does a worker that was frozen, or cannot renew its leases, leave the job alone?

Whoever has the job meanwhile is the only one whose effects count.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
from django.db import connection, transaction

from buildqueue.models import BuildJob, Checkpoint
from buildqueue.queue import enqueueing
from buildqueue.states import JobStatus, RunOutcome, WorkerStatus
from tests.host.jobs import OneStep
from tests.host.models import Effect
from tests.support.jobs import enqueue, runs, wait_for, wait_running
from tests.support.processes import RunningWorker, Workers
from tests.support.servers import Server
from tests.support.tcpproxy import Relay
from tests.support.waiting import wait_until

SHORT = {"LEASE_SECONDS": 3.0, "RENEWAL_SECONDS": 1.0}


@contextmanager
def frozen(worker: RunningWorker) -> Iterator[list[psutil.Process]]:
    """Stop a worker's whole tree; what is not thawed in the block goes on after it."""
    processes = [psutil.Process(worker.pid), *worker.below()]
    with ExitStack() as thaw:
        for process in processes:
            process.suspend()
            thaw.callback(_resume, process)
        yield processes


def _resume(process: psutil.Process) -> None:
    if process.is_running():
        process.resume()


def _in_the_step() -> bool:
    """Tell whether a session has written the effect and not committed it."""
    statement = """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
          AND state LIKE 'idle in transaction%%' AND query LIKE '%%host_effect%%'
    """
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return bool(cursor.fetchone()[0])


def test_a_thawed_run_commits_nothing_of_its_step(
    workers: Workers, tmp_path: Path
) -> None:
    first = workers.start("--slots", "1", **SHORT)
    go_on = tmp_path / "told"
    job = enqueueing.enqueue(OneStep(path=str(go_on)))
    slot = psutil.Process(wait_running(job).pid)
    wait_until(_in_the_step, message=first.output)  # the effect is written in it
    with frozen(first):
        second = workers.start("--slots", "1", **SHORT)
        assert wait_for(job).status == JobStatus.DONE, second.output()
        go_on.touch()
        slot.resume()  # before its guardian: nobody ends it but itself
        wait_until(lambda: not _in_the_step(), message=first.output)
        lost, succeeded = runs(job)
    assert (lost.outcome, lost.error_code) == (RunOutcome.LOST, "lease_over")
    assert succeeded.worker == second.row.pk
    assert [effect.attempt for effect in Effect.objects.all()] == [2]
    assert [c.lease_id for c in Checkpoint.objects.all()] == [succeeded.pk]
    wait_until(lambda: first.row.status == WorkerStatus.RUNNING, message=first.output)
    for _ in range(3):
        assert wait_for(enqueue("ok", label="after")).status == JobStatus.DONE
    assert len(runs(job)) == 2
    assert Effect.objects.exclude(label="after").count() == 1


def test_a_run_whose_lease_cannot_be_renewed_is_ended_and_not_gone_on_with(
    workers: Workers,
) -> None:
    worker = workers.start("--slots", "1", **SHORT)
    job = enqueue("hang", until_attempt=1)
    slot = psutil.Process(wait_running(job).pid)
    with transaction.atomic():
        # A renewal skips a row that somebody has locked; a rescue does, too.
        held = BuildJob.objects.select_for_update().get(pk=job.pk)
        wait_until(lambda: not slot.is_running(), message=worker.output)
        held.refresh_from_db()
        assert held.status == JobStatus.IN_PROGRESS
    assert wait_for(job).status == JobStatus.DONE
    lost, succeeded = runs(job)
    assert (lost.outcome, succeeded.outcome) == (RunOutcome.LOST, RunOutcome.SUCCEEDED)
    assert Effect.objects.count() == 1


def test_a_worker_cut_off_from_the_database_ends_its_run_by_itself(
    server: Server, workers: Workers
) -> None:
    with Relay("127.0.0.1", server.port) as relay:
        settings = server.settings | {"PORT": relay.port}
        first = workers.start(
            "--slots", "1", databases={"default": settings}, poll_seconds=1.0, **SHORT
        )
        job = enqueue("hang", until_attempt=1)
        slot = psutil.Process(wait_running(job).pid)
        relay.pause()
        wait_until(lambda: not slot.is_running(), message=first.output)
        assert wait_for(job, JobStatus.IN_PROGRESS).attempt == 1
        second = workers.start("--slots", "1", **SHORT)
        assert wait_for(job).status == JobStatus.DONE, second.output()
        before = first.row.heartbeat_at
        relay.resume()
        lost, succeeded = runs(job)
        assert (lost.outcome, lost.error_code) == (RunOutcome.LOST, "lease_over")
        assert succeeded.worker == second.row.pk
        wait_until(lambda: first.row.heartbeat_at > before, message=first.output)
        assert Effect.objects.count() == 1
        assert len(runs(job)) == 2
