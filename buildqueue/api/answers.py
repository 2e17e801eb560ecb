"""How is an answer sent, and when should the client ask again?

A GET carries an ETag made of its body, so that a poll which would bring nothing new is
answered 304; Retry-After says how long to wait while there may be news.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.utils.cache import get_conditional_response
from ninja import Schema

from .. import clock
from ..models import BuildJob, JobEvent
from ..queue import database, logs
from ..queue.verbs import VERBS
from ..states import EventKind, JobStatus
from . import rendering, schemas

SOON, LATER, LONG = 2, 10, 60  # seconds
LOG_SECONDS: Final = 1
FOLLOW_MILLISECONDS: Final = 300  # a line is half a second old at most
STEP_EVENTS: Final = (
    EventKind.STEP_STARTED,
    EventKind.STEP_FINISHED,
    EventKind.STEP_FAILED,
)
OWNERS_VERBS: Final = {
    name: VERBS[name][1].sources for name in ("cancel", "retry", "pause", "resume")
} | {"answer": frozenset({JobStatus.WAITING_INPUT})}


def send(
    request: HttpRequest,
    body: Schema,
    *,
    status: int = 200,
    retry_after: int | None = None,
    location: str | None = None,
) -> HttpResponse:
    """Return the answer; 304 for a GET whose body the client has."""
    content = body.model_dump_json().encode()
    response = HttpResponse(content, content_type="application/json", status=status)
    if request.method == "GET":
        # Weak: a middleware may compress the body.
        etag = f'W/"{sha256(content).hexdigest()[:32]}"'
        response.headers["ETag"] = etag
        found = get_conditional_response(request, etag=etag, response=response)
        response = found or response
    if location:
        response.headers["Location"] = location
    if retry_after is not None:
        response.headers["Retry-After"] = str(retry_after)
    return response


def send_nothing() -> HttpResponse:
    """Return 204: it is gone."""
    return HttpResponse(status=204)


def send_queued(request: HttpRequest, body: schemas.Queued) -> HttpResponse:
    """Return 202 with the job's address; 200 when there was nothing to do."""
    location = body.links.get("job")
    if location is None:
        return send(request, body)
    return send(request, body, status=202, retry_after=SOON, location=location)


def send_job(request: HttpRequest, row: BuildJob, *, status: int = 200) -> HttpResponse:
    """Return a job's answer with its steps, its build and the verbs it allows."""
    using = database.alias()
    events = JobEvent.objects.using(using).filter(
        job_id=row.pk, attempt=row.attempt, kind__in=STEP_EVENTS
    )
    builds = row.agent_builds.using(using).values_list("pk", flat=True)
    verbs = {
        name: rendering.address(f"job_{name}", row.pk)
        for name, sources in OWNERS_VERBS.items()
        if row.status in sources
    }
    steps = rendering.steps_of(row, list(events.order_by("id")))
    body = rendering.job_of(row, steps, builds.order_by("-created_at").first(), verbs)
    location = rendering.address("job", row.pk) if status == 202 else None
    return send(
        request, body, status=status, retry_after=retry_after(row), location=location
    )


def send_log(
    request: HttpRequest, row: BuildJob, since: logs.Position, limit: int
) -> HttpResponse:
    """Return the chunks of a job's log after a position."""
    # Asked before the chunks are read: what is finished then can gain no chunk after.
    settled = row.is_final and logs.complete(row.pk)
    chunks = logs.read(row.pk, since, limit=limit)
    more = len(chunks) == limit
    body = schemas.LogPage(
        chunks=[rendering.chunk_of(chunk) for chunk in chunks],
        next=str(logs.position_of(chunks[-1]) if chunks else since),
        finished=settled and not more,
        look_again_ms=_look_again(row, more=more, settled=settled),
    )
    wait = None if more or settled else LOG_SECONDS
    return send(request, body, retry_after=wait)


def _look_again(row: BuildJob, *, more: bool, settled: bool) -> int | None:
    """Return when a follower looks again; Retry-After has whole seconds only."""
    if more:
        return 0
    if settled:
        return None
    prints = row.is_final or row.status == JobStatus.IN_PROGRESS
    return FOLLOW_MILLISECONDS if prints else LOG_SECONDS * 1000


def retry_after(row: BuildJob) -> int | None:
    """Return after how many seconds to look again; None when it has ended."""
    match row.status:
        case _ if row.is_final:
            return None
        case JobStatus.PENDING | JobStatus.IN_PROGRESS:
            return SOON
        case JobStatus.SCHEDULED:
            left = (row.due_at - clock.now()).total_seconds()
            return min(max(SOON, round(left)), LONG)
        case _:
            return LATER  # it waits for a person or for other jobs
