"""What happens to the jobs of a worker that is killed, or freezes?"""

from __future__ import annotations

import signal

import psutil

from buildqueue.states import JobStatus, RunOutcome, WorkerStatus
from tests.host.models import Effect
from tests.support.jobs import enqueue, runs, wait_for, wait_running
from tests.support.processes import Workers
from tests.support.waiting import wait_until

LONG = {"LEASE_SECONDS": 600.0, "RENEWAL_SECONDS": 200.0}
SHORT = {"LEASE_SECONDS": 3.0, "RENEWAL_SECONDS": 1.0}


def test_all_below_a_killed_supervisor_ends_and_the_job_is_rescued_before_its_lease(
    workers: Workers,
) -> None:
    first = workers.start(**LONG)
    job = enqueue("hang_with_children", until_attempt=1, label="grandchild")
    wait_running(job)
    wait_until(lambda: first.find("grandchild"), message=first.output)
    second = workers.start(**LONG)
    first.signal(signal.SIGKILL)
    first.wait()
    wait_until(first.all_gone, message=first.below)
    assert wait_for(job).status == JobStatus.DONE
    lost, succeeded = runs(job)
    assert (lost.outcome, lost.error_code) == (RunOutcome.LOST, "worker_died")
    assert succeeded.worker == second.row.pk
    assert wait_for(job).crashes == 1
    wait_until(lambda: first.row.status == WorkerStatus.LOST, message=first.output)
    assert second.row.status == WorkerStatus.RUNNING


def test_a_frozen_supervisor_loses_the_job_and_its_slot_ends_with_the_lease(
    workers: Workers,
) -> None:
    first = workers.start(**SHORT)
    job = enqueue("hang", until_attempt=1)
    run = wait_running(job)
    slot = psutil.Process(run.pid)
    second = workers.start(**SHORT)
    first.signal(signal.SIGSTOP)
    try:
        assert wait_for(job).status == JobStatus.DONE
        wait_until(lambda: not slot.is_running(), message=first.output)
    finally:
        first.signal(signal.SIGCONT)
    lost, succeeded = runs(job)
    assert (lost.outcome, lost.error_code) == (RunOutcome.LOST, "lease_over")
    assert succeeded.worker == second.row.pk
    # The frozen one goes on with other work, and has written nothing.
    after = [enqueue("ok", label="after") for _ in range(10)]
    for each in after:
        assert wait_for(each).status == JobStatus.DONE
    assert Effect.objects.filter(label="").count() == 1
    assert len(runs(job)) == 2
    wait_until(lambda: first.row.status == WorkerStatus.RUNNING, message=first.output)


def test_a_lease_outlives_its_length_while_the_slot_is_stuck_in_c(
    workers: Workers,
) -> None:
    workers.start(**SHORT)
    workers.start(**SHORT)
    job = enqueue("hang_in_c", seconds=8)
    assert wait_for(job).status == JobStatus.DONE
    assert [run.outcome for run in runs(job)] == [RunOutcome.SUCCEEDED]


def test_a_slot_that_outlives_its_leases_idle_is_not_ended(workers: Workers) -> None:
    worker = workers.start("--slots", "1", **SHORT)
    first = enqueue("ok")
    wait_for(first)
    waited = enqueue("hang", seconds=4)
    wait_for(waited)
    last = enqueue("ok")
    wait_for(last)
    slots = {runs(job)[0].slot for job in (first, waited, last)}
    assert len(slots) == 1, worker.output()
