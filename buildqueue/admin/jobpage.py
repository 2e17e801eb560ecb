"""What stands on a job's page? Facts, runs, timeline, log and payload, each bounded.

What it asks, does and remembers is in `jobwork`. One query a table. What the reader may
not see is not read: a page for somebody without `view_log` asks nothing of the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.http import HttpRequest

from ..models import BuildJob, JobEvent, JobRun, Worker
from ..queue import database
from ..states import EventKind, JobStatus
from . import joblog, jobwork, people
from .jobasking import ANSWER
from .why import why

if TYPE_CHECKING:
    from .jobs import BuildJobAdmin

LARGE = ("payload", "result", "error_msg", "trace_context")
MOST_RUNS = 50
MOST_EVENTS = 500
MOST_CHILDREN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRun:
    """A run, and the address of the worker that ran it."""

    run: JobRun
    worker: Worker | None


def context_of(
    admin: BuildJobAdmin, request: HttpRequest, job: BuildJob
) -> dict[str, Any]:
    """Return what the page's template shows."""
    alias = database.alias()
    job.refresh_from_db(fields=LARGE)
    events = JobEvent.objects.using(alias).filter(job_id=job.pk).order_by("-id")
    children = BuildJob.objects.using(alias).filter(parent_id=job.pk).order_by("seq")
    told = list(events[:MOST_EVENTS])[::-1]
    kin = list(children[: MOST_CHILDREN + 1])
    buttons = admin.buttons(request, job)
    may_log = request.user.has_perm("buildqueue.view_log")
    return {
        **jobwork.context_of(admin, request, job, buttons),
        "job": job,
        "why": why(job),
        "buttons": [button for button in buttons if button.act is not ANSWER],
        "target": job.agent or job.connector,
        "target_url": admin.page_of(job.agent or job.connector, request),
        "parent_url": job.parent_id
        and admin.admin_url("buildjob_change", job.parent_id),
        "children": kin[:MOST_CHILDREN],
        "children_url": len(kin) > MOST_CHILDREN
        and f"{admin.admin_url('buildjob_changelist')}?parent={job.pk}",
        "runs": _runs(job),
        "owner": people.shown(job.owner_id),
        "events": told,
        "interrupted": _interrupted(job, told),
        "most_events": MOST_EVENTS,
        "may_payload": request.user.has_perm("buildqueue.view_payload"),
        "may_log": may_log,
        "log": joblog.tail(job.pk) if may_log else None,
        "version": joblog.version_of(job, told[-1].pk if told else None),
        "live_url": admin.admin_url("buildjob_log", job.pk),
        "raw_url": admin.admin_url("buildjob_log_raw", job.pk),
        "may_worker": request.user.has_perm("buildqueue.view_worker"),
    }


def _interrupted(job: BuildJob, events: list[JobEvent]) -> set[int]:
    """Return the beginnings of steps that never ended, though their run is over."""
    begun: dict[tuple[UUID | None, str], int] = {}
    for event in events:
        step = (event.run, event.title)
        if event.kind == EventKind.STEP_STARTED:
            begun[step] = event.pk
        elif event.kind in (EventKind.STEP_FINISHED, EventKind.STEP_FAILED):
            begun.pop(step, None)
    alive = job.lease_id if job.status == JobStatus.IN_PROGRESS else None
    return {pk for (run, _name), pk in begun.items() if run is None or run != alive}


def _runs(job: BuildJob) -> list[ShownRun]:
    runs = list(
        JobRun.objects.using(database.alias())
        .filter(job_id=job.pk)
        .order_by("-attempt", "-started_at")[:MOST_RUNS]
    )
    workers = _workers({run.worker for run in runs})
    return [ShownRun(run=run, worker=workers.get(run.worker)) for run in runs]


def _workers(ids: set[UUID]) -> dict[UUID, Worker]:
    if not ids:
        return {}
    return Worker.objects.using(database.alias()).in_bulk(ids)
