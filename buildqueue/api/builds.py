"""Which addresses does a build have? Itself, and the log of its job."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from ..models import BuildJob
from ..queue import database
from . import access, answers, rendering, schemas
from .auth import caller_of
from .jobs import Limit, position

router = Router(tags=["builds"])


@router.get("/builds/{build_id}", response=schemas.Build, url_name="build")
def build(request: HttpRequest, build_id: UUID) -> HttpResponse:
    """Return a build, with the reason when it failed."""
    found = access.build(caller_of(request), build_id)
    wait = None if found.completed_at else answers.SOON
    return answers.send(request, rendering.build_of(found), retry_after=wait)


@router.get("/builds/{build_id}/log", response=schemas.LogPage, url_name="build_log")
def build_log(
    request: HttpRequest, build_id: UUID, since: str = "0.0", limit: Limit = 200
) -> HttpResponse:
    """Return what the build's job printed after a position, `attempt.seq`."""
    found = access.build_to_read_log(caller_of(request), build_id)
    start = position(since)
    if found.job_id is not None:
        jobs = BuildJob.objects.using(database.alias()).defer(*access.UNSHOWN)
        return answers.send_log(request, jobs.get(pk=found.job_id), start, limit)
    # Its job was removed after the time for which jobs are kept.
    empty = schemas.LogPage(chunks=[], next=str(start), finished=True)
    return answers.send(request, empty)
