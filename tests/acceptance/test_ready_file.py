"""Does the ready file say whether the worker takes jobs?"""

from __future__ import annotations

import signal
from pathlib import Path

from buildqueue.states import JobStatus
from tests.support.jobs import enqueue, wait_for, wait_running
from tests.support.processes import Workers
from tests.support.waiting import wait_until


def test_the_file_is_there_from_the_first_slot_to_the_drain(
    workers: Workers, tmp_path: Path
) -> None:
    file, go_on = tmp_path / "ready", tmp_path / "told"
    file.write_text("left by a worker that was killed")
    worker = workers.start("--ready-file", str(file), ready=False)
    wait_until(
        lambda: file.exists() and file.read_text() == f"{worker.pid}\n",
        message=worker.output,
    )
    assert file.stat().st_mode & 0o777 == 0o644
    job = enqueue("hang_until_told", path=str(go_on))
    wait_running(job)
    assert file.exists()
    worker.signal(signal.SIGTERM)
    wait_until(lambda: not file.exists(), message=worker.output)
    assert worker.popen.poll() is None  # the drain waits for its job
    go_on.touch()
    assert worker.wait() == 0
    assert wait_for(job).status == JobStatus.DONE
    assert sorted(p.name for p in tmp_path.iterdir()) == ["told", "worker-0.log"]


def test_a_worker_that_cannot_write_the_file_says_so_and_does_not_start(
    workers: Workers, tmp_path: Path
) -> None:
    for path in (tmp_path / "nowhere" / "ready", tmp_path):
        worker = workers.start("--ready-file", str(path), ready=False)
        assert worker.wait() == 1
        assert "--ready-file must be in a folder" in worker.output()
