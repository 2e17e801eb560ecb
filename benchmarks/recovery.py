"""`python -m benchmarks.recovery`: how long until a job goes on whose process was killed?

With the default settings, on the database of DATABASE_URL. Printed are the seconds from
the SIGKILL of a slot to the next claim of its job, and from that of a supervisor to the
moment at which another worker has made its job pending, as told by the database's clock.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime

import django
from django.db import connection

SLOT_ROUNDS, WORKER_ROUNDS = 20, 5
PATIENCE = 120.0


def main() -> None:
    """Measure and print."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    _tell("slot killed, until its job is claimed again", _slots())
    _tell("supervisor killed, until its job is pending again", _supervisors())


def _tell(what: str, seconds: list[float]) -> None:
    worst, median = max(seconds), statistics.median(seconds)
    print(f"{what}: median {median:.2f} s, worst {worst:.2f} s, of {len(seconds)}")


def _slots() -> list[float]:
    found = []
    worker = _worker()
    try:
        for _ in range(SLOT_ROUNDS):
            job, pid = _running()
            killed = _now()
            os.kill(pid, signal.SIGKILL)
            found.append(_until(lambda job=job: _started(job, 2)) - killed)
            _cancel(job)
    finally:
        worker.terminate()
        worker.wait()
    return [each.total_seconds() for each in found]


def _supervisors() -> list[float]:
    found = []
    workers = [_worker()]
    try:
        for _ in range(WORKER_ROUNDS):
            job, _pid = _running()
            workers.append(_worker())
            _ready(workers[-1])
            killed = _now()
            workers.pop(0).kill()
            found.append(_until(lambda job=job: _rescued(job)) - killed)
            _cancel(job)
    finally:
        for worker in workers:
            worker.terminate()
            worker.wait()
    return [each.total_seconds() for each in found]


def _worker() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "django", "runworker", "--slots", "1"]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdout=quiet, stderr=quiet)


def _ready(worker: subprocess.Popen[bytes]) -> None:
    from buildqueue.models import Worker

    _until(lambda: Worker.objects.filter(pid=worker.pid, direct=True).exists())


def _running() -> tuple[object, int]:
    from buildqueue.models import JobRun
    from tests.support.jobs import enqueue

    job = enqueue("hang", seconds=PATIENCE * 2)
    pid = _until(
        lambda: (
            JobRun.objects.filter(job_id=job.pk, ended_at=None)
            .values_list("pid", flat=True)
            .first()
        )
    )
    return job.pk, pid


def _started(job: object, attempt: int) -> datetime | None:
    from buildqueue.models import JobRun

    runs = JobRun.objects.filter(job_id=job, attempt=attempt)
    return runs.values_list("started_at", flat=True).first()


def _rescued(job: object) -> datetime | None:
    from buildqueue.models import JobEvent

    events = JobEvent.objects.filter(job_id=job, kind="rescue")
    return events.values_list("created_at", flat=True).first()


def _cancel(job: object) -> None:
    from buildqueue.queue import verbs
    from buildqueue.queue.outcomes import SYSTEM

    verbs.cancel(job, actor=SYSTEM)


def _now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]


def _until(look: Callable[[], object]):
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        if seen := look():
            return seen
        time.sleep(0.005)
    raise SystemExit("gave up: the job did not go on")


if __name__ == "__main__":
    main()
