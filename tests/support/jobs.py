"""How does a test put jobs in and see what became of them?"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from buildqueue.models import BuildJob, JobEvent, JobProgress, JobRun, LogChunk
from buildqueue.queue import enqueueing
from buildqueue.states import FINAL, JobStatus
from tests.host.jobs import Behavior, Probe

from .waiting import wait_until


def enqueue(
    behavior: Behavior = "ok", *, options: Any = None, **fields: Any
) -> BuildJob:
    """Enqueue a probe; `options` are those of `enqueue`."""
    return enqueueing.enqueue(Probe(behavior=behavior, **fields), **(options or {}))


def wait_for(job: BuildJob, *statuses: str, timeout: float = 60.0) -> BuildJob:
    """Wait until a job has one of the statuses (ended, when none is named)."""
    wanted = statuses or tuple(FINAL)

    def look() -> BuildJob | None:
        return BuildJob.objects.filter(pk=job.pk, status__in=wanted).first()

    def tell() -> object:
        fields = ("status", "attempt", "failures", "crashes", "error_msg")
        return BuildJob.objects.filter(pk=job.pk).values(*fields).first()

    found = wait_until(look, timeout=timeout, message=tell)
    assert found is not None
    return found


def wait_running(job: BuildJob) -> JobRun:
    """Wait until a job runs and its handler has begun to print or work."""
    wait_for(job, JobStatus.IN_PROGRESS)
    return runs(job)[-1]


def fresh(job: BuildJob) -> BuildJob:
    """Return the job as it is stored now."""
    return BuildJob.objects.get(pk=job.pk)


def story(job: BuildJob) -> list[tuple[str, str]]:
    """Return the kinds and titles of the job's events, in order."""
    events = JobEvent.objects.filter(job_id=job.pk).order_by("pk")
    return list(events.values_list("kind", "title"))


def kinds(job: BuildJob) -> list[str]:
    """Return the kinds of the job's events, in order."""
    return [kind for kind, _ in story(job)]


def runs(job: BuildJob) -> list[JobRun]:
    """Return the attempts of a job, in order."""
    return list(JobRun.objects.filter(job_id=job.pk).order_by("attempt"))


def progress_row(job: BuildJob) -> dict[str, Any]:
    """Return the row of what a job remembers."""
    return JobProgress.objects.filter(pk=job.pk).values().get()


def text(job: BuildJob | UUID, attempt: int | None = None, **fields: Any) -> str:
    """Return a job's log as one text."""
    pk = job if isinstance(job, UUID) else job.pk
    chunks = LogChunk.objects.filter(job_id=pk, **fields).order_by("attempt", "seq")
    if attempt is not None:
        chunks = chunks.filter(attempt=attempt)
    return "".join(chunk.text for chunk in chunks)
