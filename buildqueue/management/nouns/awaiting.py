"""How did it end? The job's log is followed to its end, and then it is told.

Looking on changes nothing: whoever stops looking leaves the job to go on by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from ...builds import failures
from ...exceptions import BuildQueueError
from ...models import AgentBuild, BuildJob, McpConnectorBuild
from ...states import JobStatus
from .. import logs_text
from ..finding import NotFound


class NotDone(BuildQueueError):
    """What was waited for ended otherwise than well."""


def log_of(jobs: Sequence[BuildJob]) -> Iterator[str]:
    """Yield the logs of the jobs, one after the other, each until its job has ended."""
    for job in jobs:
        yield from logs_text.lines(job, "0.0", follow=True)


def ends_of(jobs: Sequence[BuildJob]) -> list[dict[str, Any]]:
    """Return how each of the jobs has ended."""
    return [_end_of(job.pk) for job in jobs]


def told(end: dict[str, Any]) -> str:
    """Return how a job has ended, in a line and a hint."""
    if end["status"] == JobStatus.DONE:
        at = f": version {end['version']}" if end.get("version") else ""
        return f"job {end['job_id']} is done{at}"
    why = ": ".join(filter(None, (end["error_code"], end["error_msg"])))
    line = f"job {end['job_id']} is {end['status']}"
    line += f" at {end['phase']}" if end.get("phase") else ""
    line += f": {why}" if why else ""
    return f"{line}\nhint: {end['hint']}" if end["hint"] else line


def failure_of(ends: Sequence[dict[str, Any]]) -> NotDone | None:
    """Return what went wrong, with reasons and hints; None when every job is done."""
    bad = [end for end in ends if end["status"] != JobStatus.DONE]
    return NotDone("\n".join(map(told, bad))) if bad else None


def _end_of(job_id: UUID) -> dict[str, Any]:
    job = BuildJob.objects.filter(pk=job_id).first()
    if job is None:
        raise NotFound(f"job {job_id} is no longer kept: look at the builds")
    code, hint = job.error_code, failures.last_hint_of(job.error_code or "")
    end = {
        "job_id": job.pk,
        "status": job.status,
        "error_code": code,
        "error_msg": job.error_msg,
        "hint": hint,
    }
    if (build := _build_of(job_id)) is None:
        return end
    return end | {
        "version": build.version_tag,
        "phase": build.phase,
        "exit_code": build.exit_code,
        "error_code": build.error_code or code,
        "error_msg": build.error_msg or job.error_msg,
        "hint": build.hint or hint,
    }


def _build_of(job_id: UUID) -> AgentBuild | McpConnectorBuild | None:
    agents = AgentBuild.objects.filter(job_id=job_id)
    connectors = McpConnectorBuild.objects.filter(job_id=job_id)
    return agents.first() or connectors.first()
