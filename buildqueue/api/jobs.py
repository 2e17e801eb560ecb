"""Which addresses does a job have? Itself, its log, timeline, actions, and its verbs."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from ..models import JobEvent
from ..queue import database, logs, verbs
from . import access, answers, bodies, rendering, schemas
from .auth import caller_of
from .problems import refused

router = Router(tags=["jobs"])
Limit = Annotated[int, Query(ge=1, le=500)]
Cursor = Annotated[int, Query(ge=0, lt=2**63)]
REASON_BODY = bodies.described()
ANSWER_BODY = bodies.described({"key": {"type": "string"}}, values={"type": "object"})


@router.get("/jobs/{job_id}", response=schemas.Job, url_name="job")
def job(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Return a job with its steps; poll it as Retry-After says, with If-None-Match."""
    return answers.send_job(request, access.job(caller_of(request), job_id))


@router.get("/jobs/{job_id}/log", response=schemas.LogPage, url_name="job_log")
def job_log(
    request: HttpRequest, job_id: UUID, since: str = "0.0", limit: Limit = 200
) -> HttpResponse:
    """Return what the job printed after a position, `attempt.seq`."""
    found = access.job_to_read_log(caller_of(request), job_id)
    return answers.send_log(request, found, position(since), limit)


@router.get("/jobs/{job_id}/events", response=schemas.Timeline, url_name="job_events")
def job_events(
    request: HttpRequest, job_id: UUID, after: Cursor = 0, limit: Limit = 200
) -> HttpResponse:
    """Return the job's timeline after an event, oldest first."""
    found = access.job(caller_of(request), job_id)
    events = JobEvent.objects.using(database.alias())
    rows = list(events.filter(job_id=job_id, pk__gt=after).order_by("pk")[:limit])
    finished = found.is_final and len(rows) < limit
    body = schemas.Timeline(
        events=[rendering.event_of(row) for row in rows],
        next=rows[-1].pk if rows else after,
        finished=finished,
    )
    wait = answers.retry_after(found) if len(rows) < limit else None
    return answers.send(request, body, retry_after=wait)


@router.post(
    "/jobs/{job_id}/cancel",
    response=schemas.Job,
    url_name="job_cancel",
    openapi_extra=REASON_BODY,
)
def job_cancel(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Stop an open job for good; a running process is ended soon after."""
    return _applied(request, job_id, "cancel")


@router.post(
    "/jobs/{job_id}/retry",
    response={202: schemas.Job},
    url_name="job_retry",
    openapi_extra=REASON_BODY,
)
def job_retry(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Run a failed or cancelled job again; its history is kept."""
    return _applied(request, job_id, "retry", status=202)


@router.post(
    "/jobs/{job_id}/pause",
    response=schemas.Job,
    url_name="job_pause",
    openapi_extra=REASON_BODY,
)
def job_pause(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Hold an open job back; a running process is ended, finished steps are kept."""
    return _applied(request, job_id, "pause")


@router.post(
    "/jobs/{job_id}/resume",
    response={202: schemas.Job},
    url_name="job_resume",
    openapi_extra=REASON_BODY,
)
def job_resume(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Let a paused job go on where it was."""
    return _applied(request, job_id, "resume", status=202)


@router.post(
    "/jobs/{job_id}/answer",
    response={202: schemas.Job},
    url_name="job_answer",
    openapi_extra=ANSWER_BODY,
)
def job_answer(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Answer what a job asks; it runs again and finds the answer."""
    caller = caller_of(request)
    found = access.job_to_change(caller, job_id, "answer_buildjob")
    body = bodies.read_answer(request)
    going = verbs.answer(
        found.pk,
        values=body.values,
        actor=caller.actor,
        reason=body.reason,
        key=body.key,
    )
    return answers.send_job(request, going, status=202)


@router.get("/jobs/{job_id}/actions", response=schemas.Actions, url_name="job_actions")
def job_actions(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Return what the job wants to do outside, and what became of each."""
    found = access.actions(caller_of(request), job_id)
    body = schemas.Actions(actions=[rendering.action_of(row) for row in found])
    return answers.send(request, body)


def position(text: str) -> logs.Position:
    """Return the place in a log that a query names."""
    try:
        return logs.Position.parse(text)
    except ValueError:
        why = "take it from 'next' or a chunk's 'position', such as 1.42"
        raise refused("invalid_parameter", f"since: {why}", {"since": why}) from None


def _applied(
    request: HttpRequest, job_id: UUID, name: str, *, status: int = 200
) -> HttpResponse:
    """Apply a verb that takes a reason and nothing else."""
    caller = caller_of(request)
    verb, _, permission = verbs.VERBS[name]
    found = access.job_to_change(caller, job_id, permission.partition(".")[2])
    changed = verb(found.pk, actor=caller.actor, reason=bodies.read_reason(request))
    return answers.send_job(request, changed, status=status)
