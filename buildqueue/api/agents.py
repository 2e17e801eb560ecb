"""Which addresses does an agent have? The upload, the list, itself, its end."""

from __future__ import annotations

from typing import Annotated, BinaryIO, cast
from uuid import UUID

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from ..builds import retirement, submission
from ..models import Agent, BuildJob
from ..models.agents import AgentQuerySet
from ..queue.logs import storable
from . import access, answers, bodies, rendering, schemas
from .auth import caller_of
from .jobs import REASON_BODY
from .problems import refused

router = Router(tags=["agents"])
PageSize = Annotated[int, Query(ge=1, le=200)]
TEXT = {"type": "string"}
ZIP = {"type": "string", "format": "binary"}
UPLOAD_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["name", "source"],
                    "properties": {
                        "name": TEXT,
                        "source": ZIP,
                        "version": TEXT,
                        "changelog": TEXT,
                        "ports": TEXT,
                    },
                }
            }
        },
    }
}


@router.post(
    "/agents/upload-and-deploy",
    response={202: schemas.QueuedVersion},
    url_name="agent_upload",
    openapi_extra=UPLOAD_BODY,
)
def upload_and_deploy(request: HttpRequest) -> HttpResponse:
    """Take a zip, reserve its version, and queue its build and deployment."""
    caller = caller_of(request)
    form = bodies.read_upload(request)
    queued = submission.submit_upload(
        owner_id=caller.key,
        caller=caller.actor,
        name=form.name,
        source=cast("BinaryIO", form.source),
        version=form.version,
        changelog=form.changelog,
        ports=form.ports,
    )
    job, build, agent = queued.job, queued.build, queued.agent
    body = schemas.QueuedVersion(
        job_id=job.pk,
        build_id=build.pk,
        agent_id=agent.pk,
        agent_name=agent.name,
        new_version=queued.version,
        previous_version=queued.previous_version,
        links=rendering.job_links(job.pk, build.pk, agent.pk),
    )
    return answers.send_queued(request, body)


@router.get("/agents", response=schemas.Agents, url_name="agents")
def agents(
    request: HttpRequest,
    after: UUID | None = None,
    name: str | None = None,
    limit: PageSize = 50,
) -> HttpResponse:
    """Return the caller's agents, newest first; the next page is after `next`."""
    known = access.agents(caller_of(request))
    seen = known.live()
    if name is not None:
        seen = seen.filter(name=storable(name))
    if after is not None:
        seen = seen.filter(_older_than(known, after))
    rows = list(seen.order_by("-created_at", "-id")[: limit + 1])
    page = rows[:limit]
    body = schemas.Agents(
        agents=[rendering.agent_of(row) for row in page],
        next=page[-1].pk if len(rows) > limit else None,
    )
    return answers.send(request, body)


@router.get("/agents/{agent_id}", response=schemas.AgentOut, url_name="agent")
def agent(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Return an agent: its address, status and version."""
    found = access.agent(caller_of(request), agent_id)
    return answers.send(request, rendering.agent_of(found))


@router.post(
    "/agents/{agent_id}/stop",
    response={(200, 202): schemas.QueuedEnd},
    url_name="agent_stop",
    openapi_extra=REASON_BODY,
)
def agent_stop(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Queue the end of the agent's running deployment; the agent stays."""
    caller = caller_of(request)
    found = access.agent_to_change(caller, agent_id, "stop_agent")
    reason = bodies.read_reason(request)
    jobs = retirement.stop_agent(found, actor=caller.actor, reason=reason)
    return _ending(request, jobs, found)


@router.delete(
    "/agents/{agent_id}", response={(200, 202): schemas.QueuedEnd}, url_name="agent"
)
def agent_delete(
    request: HttpRequest, agent_id: UUID, reason: str = ""
) -> HttpResponse:
    """Queue the end of the agent and of all that runs for it."""
    caller = caller_of(request)
    found = access.agent_to_change(caller, agent_id, "delete_agent")
    why = bodies.checked_reason(reason)
    jobs = retirement.delete_agent(found, actor=caller.actor, reason=why)
    return _ending(request, jobs, found)


def _ending(request: HttpRequest, jobs: list[BuildJob], agent: Agent) -> HttpResponse:
    first = jobs[0].pk if jobs else None
    agent_link = {"agent": rendering.address("agent", agent.pk)}
    body = schemas.QueuedEnd(
        agent_id=agent.pk,
        agent_name=agent.name,
        status="queued" if jobs else "done",
        job_id=first,
        job_ids=[job.pk for job in jobs],
        links=rendering.job_links(first, None, agent.pk) if first else agent_link,
    )
    return answers.send_queued(request, body)


def _older_than(known: AgentQuerySet, agent_id: UUID) -> Q:
    # One that was deleted meanwhile still marks the place.
    found = known.filter(pk=agent_id).values_list("created_at", flat=True)
    if (moment := found.first()) is None:
        why = "take it from 'next' of the page before"
        raise refused("invalid_parameter", f"after: {why}", {"after": why})
    return Q(created_at__lt=moment) | Q(created_at=moment, id__lt=agent_id)
