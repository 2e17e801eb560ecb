"""Is a worker a good first process of a container? By a PID namespace of its own."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from buildqueue.models import Worker
from buildqueue.states import JobStatus, WorkerStatus
from tests.support.jobs import enqueue, wait_for, wait_running
from tests.support.processes import RunningWorker, Workers
from tests.support.waiting import wait_until

UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
ORPHAN = """
import os, sys, time
if os.fork():
    os._exit(0)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
"""


@functools.cache
def _can_unshare() -> bool:
    if os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("nsenter")):
        return False
    tried = subprocess.run([*UNSHARE, "true"], check=False, capture_output=True)
    return tried.returncode == 0


@pytest.fixture(autouse=True)
def _needs_a_namespace() -> None:
    if not _can_unshare():
        pytest.skip(
            "only root, with unshare and nsenter, can make a PID namespace here"
        )


def _start(workers: Workers, file: Path, *arguments: str) -> RunningWorker:
    return workers.start(
        *arguments, f"--ready-file={file}", ready=False, prefix=UNSHARE
    )


def _first(worker: RunningWorker) -> psutil.Process:
    """Return the worker as it is seen from outside; `unshare` waits for it."""
    [process] = wait_until(lambda: psutil.Process(worker.pid).children())
    return process


def test_the_first_process_reaps_orphans_and_leaves_none(
    workers: Workers, tmp_path: Path
) -> None:
    ready, go = tmp_path / "ready", tmp_path / "go"
    worker = _start(workers, ready, "--slots", "2")
    wait_until(ready.exists, message=worker.output)
    assert ready.read_text() == "1\n"
    assert Worker.objects.get().pid == 1
    first = _first(worker)
    for behavior in ("leave_children", "kill", "ok"):
        job = enqueue(behavior, until_attempt=1)
        assert wait_for(job).status == JobStatus.DONE, worker.output()

    enter = ["nsenter", "-t", str(first.pid), "-p", "-m"]
    subprocess.run([*enter, sys.executable, "-c", ORPHAN, str(go)], check=True)
    [orphan] = [p for p in first.children() if str(go) in p.cmdline()]
    go.touch()
    wait_until(lambda: not psutil.pid_exists(orphan.pid), message=orphan)

    hangs = enqueue("hang_with_children", label="left")
    wait_running(hangs)
    wait_until(lambda: worker.find("left"), message=worker.output)
    assert not [p for p in worker.below() if p.status() == psutil.STATUS_ZOMBIE]
    everything = first.children(recursive=True)
    first.send_signal(signal.SIGTERM)
    wait_until(lambda: not ready.exists(), message=worker.output)
    first.send_signal(signal.SIGTERM)  # the job would hang for longer than the test
    assert worker.wait() == 1, worker.output()
    assert not [p for p in everything if p.is_running()]
    assert Worker.objects.get().status == WorkerStatus.STOPPED
    assert wait_for(hangs, JobStatus.PENDING).crashes == 0


def test_the_first_process_ends_with_0_on_term(
    workers: Workers, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    worker = _start(workers, ready)
    wait_until(ready.exists, message=worker.output)
    assert wait_for(enqueue("ok")).status == JobStatus.DONE
    _first(worker).send_signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.output()
    assert worker.all_gone()
    assert not ready.exists()


def test_the_first_process_can_be_stopped_while_it_starts(
    workers: Workers, tmp_path: Path
) -> None:
    worker = _start(workers, tmp_path / "ready")
    wait_until(lambda: "stop with Ctrl-C" in worker.output(), message=worker.output)
    _first(worker).send_signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.output()
    assert worker.all_gone()


def test_nothing_of_a_killed_first_process_lives_on(
    workers: Workers, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    worker = _start(workers, ready)
    wait_until(ready.exists, message=worker.output)
    wait_running(enqueue("hang_with_children", label="left"))
    wait_until(lambda: worker.find("left"), message=worker.output)
    _first(worker).kill()
    worker.wait()
    wait_until(worker.all_gone, message=worker.below)
    assert ready.exists()  # nobody was left to remove it
