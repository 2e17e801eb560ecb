"""`python -m benchmarks.against COMMIT`: is this code as fast as that of a commit?

Both run the same no-op jobs on one database in turn, a worker of two slots each, several
rounds; printed are jobs a second, from the first claim to the last report, and the ratio
of the medians. A ratio, because a machine is never as fast twice.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PUT_IN = """
import django; django.setup()
from buildqueue.queue.enqueueing import enqueue
from django.db import transaction
from tests.host.jobs import Probe
with transaction.atomic():
    for _ in range({jobs}):
        enqueue(Probe())
"""
TAKE_TIME = """
import django; django.setup()
from django.db.models import Max, Min
from buildqueue.models import BuildJob, JobRun
found = JobRun.objects.aggregate(begun=Min("started_at"), ended=Max("ended_at"))
print((found["ended"] - found["begun"]).total_seconds())
from django.db import connection
with connection.cursor() as cursor:
    cursor.execute("DELETE FROM buildqueue_buildjob")
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        before = _code_of(options.commit, Path(folder))
        rates: dict[str, list[float]] = {"before": [], "now": []}
        for _ in range(options.rounds):
            rates["before"].append(_rate(before, options.jobs))
            rates["now"].append(_rate(ROOT, options.jobs))
    for name, found in rates.items():
        listed = ", ".join(f"{rate:.1f}" for rate in found)
        print(f"{name:>6}: {listed} jobs/s; median {statistics.median(found):.1f}")
    medians = [statistics.median(rates[name]) for name in ("now", "before")]
    print(f" ratio: {medians[0] / medians[1]:.2f} (now / before)")


def _code_of(commit: str, folder: Path) -> Path:
    told = subprocess.run(
        ["git", "archive", "--format=tar", commit, "buildqueue", "tests", "project"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    with tarfile.open(fileobj=BytesIO(told.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def _rate(code: Path, jobs: int) -> float:
    """Return jobs a second, from the first claim to the last report."""

    def run(*command: str) -> str:
        return subprocess.run(
            [sys.executable, *command],
            cwd=code,
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ).stdout

    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "PYTHONPATH": str(code),
    }
    run("-c", PUT_IN.format(jobs=jobs))
    run("-m", "django", "runworker", "--burst", "--slots", "2")
    return jobs / float(run("-c", TAKE_TIME))


if __name__ == "__main__":
    main()
