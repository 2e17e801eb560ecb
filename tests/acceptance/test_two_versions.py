"""Do workers of the previous code and of this one share one database, while both run?

A deploy of the app itself migrates first and replaces workers one by one: the old code
meets the new schema. The code of before is taken out of the repository's own history.
"""

from __future__ import annotations

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from buildqueue.models import BuildJob, JobRun, Worker
from buildqueue.states import JobStatus
from tests.host.models import Effect
from tests.support.jobs import enqueue
from tests.support.processes import ROOT, Workers
from tests.support.waiting import wait_until

# Before checkpoints, actions and notices had their tables.
BEFORE = "71ea1ec21fbff843e48263253dfe33ab4146dc04"
JOBS = 60

pytestmark = pytest.mark.slow


@pytest.fixture
def code_of_before(tmp_path: Path) -> Path:
    """Return a folder with the code of the last version without this one's tables."""
    told = subprocess.run(
        ["git", "archive", "--format=tar", BEFORE, "buildqueue", "tests", "project"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if told.returncode:
        pytest.skip(f"the repository's history is not here: {told.stderr.decode()}")
    folder = tmp_path / "before"
    with tarfile.open(fileobj=BytesIO(told.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def test_old_and_new_workers_share_the_work(
    workers: Workers, code_of_before: Path
) -> None:
    old = workers.start("--slots", "1", code=code_of_before)
    new = workers.start("--slots", "1")
    versions = {old.row.pk: "old", new.row.pk: "new"}

    jobs = [enqueue("ok", label=str(number)) for number in range(JOBS)]
    wait_until(
        lambda: BuildJob.objects.filter(status=JobStatus.DONE).count() == JOBS,
        message=lambda: (old.output(), new.output()),
    )

    assert Effect.objects.count() == JOBS
    ran = JobRun.objects.filter(job_id__in=[job.pk for job in jobs])
    assert {versions[run.worker] for run in ran} == {"old", "new"}
    assert Worker.objects.count() == 2


def test_a_job_of_a_killed_old_worker_is_done_by_a_new_one(
    workers: Workers, code_of_before: Path, tmp_path: Path
) -> None:
    old = workers.start("--slots", "1", code=code_of_before)
    job = enqueue("hang", label="handed over", seconds=600, until_attempt=1)
    wait_until(lambda: JobRun.objects.filter(job_id=job.pk).exists())
    new = workers.start("--slots", "1")

    old.popen.kill()
    old.wait()

    wait_until(
        lambda: BuildJob.objects.filter(pk=job.pk, status=JobStatus.DONE).exists(),
        message=new.output,
    )
    assert Effect.objects.get().attempt == 2
