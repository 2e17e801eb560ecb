"""What if one of the worker's own processes dies, and not the worker?"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil

from buildqueue.queue import verbs
from buildqueue.queue.outcomes import Actor
from buildqueue.states import JobStatus, RunOutcome
from tests.support.jobs import enqueue, runs, wait_for, wait_running
from tests.support.processes import RunningWorker, Workers
from tests.support.waiting import wait_until


def _fds(worker: RunningWorker) -> int:
    return len(list(Path(f"/proc/{worker.pid}/fd").iterdir()))


def _is_whole(worker: RunningWorker) -> bool:
    """Tell whether two slots are there, and nothing besides, ended or not."""
    children = psutil.Process(worker.pid).children(recursive=True)
    zombies = [c for c in children if c.status() == psutil.STATUS_ZOMBIE]
    # The template, and guardian and process of two slots and the duties.
    return not zombies and len(children) == 7


def _template(worker: RunningWorker) -> psutil.Process:
    # Forked slots show the template's command line; the template is the first of them.
    found = [
        process
        for process in worker.find("buildqueue.worker.template")
        if process.ppid() == worker.pid and os.getsid(process.pid) == process.pid
    ]
    return min(found, key=lambda process: process.create_time())


def test_the_tree_of_a_killed_guardian_ends_and_its_job_is_rescued(
    workers: Workers,
) -> None:
    worker = workers.start("--slots", "2")
    other = enqueue("hang", seconds=5, label="other")
    job = enqueue("hang_with_children", until_attempt=1, label="grandchild")
    pid = wait_running(job).pid
    wait_running(other)
    wait_until(lambda: worker.find("grandchild"), message=worker.output)
    guardian = psutil.Process(pid).ppid()
    assert guardian != worker.pid
    os.kill(guardian, signal.SIGKILL)
    assert wait_for(job).status == JobStatus.DONE
    assert not worker.find("grandchild")
    assert not psutil.pid_exists(pid or 0)
    first, second = runs(job)
    assert (first.outcome, first.error_code) == (RunOutcome.CRASHED, "guardian_died")
    assert second.outcome == RunOutcome.SUCCEEDED
    assert wait_for(other).attempt == 1


def test_a_killed_template_is_replaced(workers: Workers) -> None:
    worker = workers.start("--slots", "1")
    wait_for(enqueue("ok"))
    template = _template(worker)
    template.kill()
    job = enqueue("kill", until_attempt=1)
    assert wait_for(job).status == JobStatus.DONE
    assert "starting another" in worker.output()
    assert worker.popen.poll() is None


def test_killed_duties_are_replaced_and_serve_what_waited(workers: Workers) -> None:
    worker = workers.start("--slots", "1")
    wait_for(enqueue("ok"))
    slot = enqueue("hang", until_attempt=1)
    pid = wait_running(slot).pid
    assert pid is not None
    guardians = {
        child.pid
        for child in psutil.Process(worker.pid).children()
        if child.pid != _template(worker).pid
    }
    (duties_guardian,) = guardians - {psutil.Process(pid).ppid()}
    (duties,) = psutil.Process(duties_guardian).children()
    duties.send_signal(signal.SIGSTOP)  # so that it cannot serve before it is killed
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: "SIGKILL" in worker.output(), message=worker.output)
    duties.kill()
    assert wait_for(slot).status == JobStatus.DONE
    assert [run.outcome for run in runs(slot)] == ["crashed", "succeeded"]


def test_slots_come_and_go_without_leaving_descriptors_or_zombies(
    workers: Workers,
) -> None:
    worker = workers.start("--slots", "2", slot_max_jobs=1)
    # The threads that renew leases and store logs connect when first needed.
    for job in (enqueue("hang", seconds=2.5), enqueue("print")):
        wait_for(job)
    wait_until(lambda: _is_whole(worker), message=worker.output)
    before = _fds(worker)
    jobs = [enqueue("ok") for _ in range(200)]
    jobs += [enqueue("kill", options={"max_attempts": 1}) for _ in range(20)]
    for job in jobs:
        wait_for(job, timeout=120)
    assert len({run.slot for job in jobs for run in runs(job)}) == 220
    wait_until(
        lambda: _is_whole(worker) and _fds(worker) <= before,
        message=lambda: (before, _fds(worker)),
    )


def test_a_hanging_guardian_does_not_keep_a_cancelled_job_alive(
    workers: Workers,
) -> None:
    worker = workers.start("--slots", "1", kill_grace_seconds=0.5)
    job = enqueue("hang_with_children", label="grandchild")
    pid = wait_running(job).pid
    assert pid is not None
    os.kill(psutil.Process(pid).ppid(), signal.SIGSTOP)
    verbs.cancel(job.pk, actor=Actor(label="person"))
    wait_until(lambda: not psutil.pid_exists(pid), message=worker.output)
    wait_until(lambda: not worker.find("grandchild"), message=worker.output)
    assert wait_for(enqueue("ok")).status == JobStatus.DONE
