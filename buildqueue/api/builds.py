"""Which addresses does a build have? The list, itself, its log; and builds alone."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from ..builds import registration, submission
from ..models import Agent, BuildJob
from ..queue import database
from . import access, answers, asked, paging, reading, rendering, schemas
from .auth import Caller, caller_of
from .deploying import QUEUED, queued
from .jobs import Limit, position
from .reading import JSON
from .receiving import MULTIPART

router = Router(tags=["builds"])
BuildStatus = Literal["queued", "building", "success", "failed"]


@router.post(
    "/builds",
    response=QUEUED,
    url_name="builds",
    openapi_extra=asked.told(asked.Build, MULTIPART, JSON),
)
def build_alone(request: HttpRequest) -> HttpResponse:
    """Build an archive or a repository, and deploy nothing: the version waits."""
    caller = caller_of(request)
    body = reading.read(request, asked.Build)
    with database.atomic():  # a name that is registered is forgotten after a refusal
        found = _agent(caller, body)
        made = submission.submit_build(
            found,
            caller=caller.actor,
            source=body.archive,
            git=body.git,
            version=body.version,
            changelog=body.changelog,
        )
    return queued(request, made)


def _agent(caller: Caller, body: asked.Build) -> Agent:
    if body.agent_id is None:
        return registration.register_agent(owner_id=caller.key, name=body.name or "")
    found = access.agent_to_manage(caller, body.agent_id, "deploy_agent")
    if body.secret is not None:
        access.check_secrets(caller, found)
    return found


@router.get("/builds", response=schemas.Builds, url_name="builds")
def builds(
    request: HttpRequest,
    agent: UUID | None = None,
    status: BuildStatus | None = None,
    after: UUID | None = None,
    limit: paging.PageSize = 50,
) -> HttpResponse:
    """Return the builds of the caller's agents, or of one agent, newest first."""
    caller = caller_of(request)
    known = access.builds(caller, agent)
    seen = known.defer(*access.HIDDEN, "agent__secrets_env", "logs")
    if status is not None:
        seen = seen.filter(status=status)
    page = paging.page_of(seen, after=after, limit=limit, known=known)
    sees_jobs = caller.may("view_buildjob")
    body = schemas.Builds(
        builds=[
            rendering.build_of(
                row,
                logs=False,
                job=sees_jobs or caller.owns(row.agent.owner_id, row.triggered_by),
            )
            for row in page.rows
        ],
        next=page.next,
    )
    return answers.send(request, body)


@router.get("/builds/{build_id}", response=schemas.Build, url_name="build")
def build(request: HttpRequest, build_id: UUID) -> HttpResponse:
    """Return a build, with the reason when it failed."""
    caller = caller_of(request)
    found = access.build(caller, build_id)
    sight = access.sight(caller, found.agent)
    job = sight.jobs or caller.owns(found.triggered_by)
    wait = None if found.completed_at else answers.SOON
    body = rendering.build_of(found, logs=sight.logs, job=job)
    return answers.send(request, body, retry_after=wait)


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
