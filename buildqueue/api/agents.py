"""Which addresses does an agent have? The list, itself, what runs of it, its end."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from ..builds import retirement, running
from ..models import Agent, BuildJob
from ..queue.logs import storable
from . import access, answers, asked, bodies, paging, reading, rendering, schemas
from .auth import caller_of
from .jobs import REASON_BODY

router = Router(tags=["agents"])
MAYBE_QUEUED = {(200, 202): schemas.QueuedJobs}


@router.get("/agents", response=schemas.Agents, url_name="agents")
def agents(
    request: HttpRequest,
    after: UUID | None = None,
    name: str | None = None,
    shared: bool = False,
    limit: paging.PageSize = 50,
) -> HttpResponse:
    """Return the caller's agents, or those that others share with them, newest first."""
    caller = caller_of(request)
    known = access.shared_agents(caller) if shared else access.agents(caller)
    seen = known.live()
    if name is not None:
        seen = seen.filter(name=storable(name))
    page = paging.page_of(seen, after=after, limit=limit, known=known)
    body = schemas.Agents(
        agents=[rendering.agent_of(row) for row in page.rows], next=page.next
    )
    return answers.send(request, body)


@router.get("/agents/{agent_id}", response=schemas.AgentOut, url_name="agent")
def agent(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Return an agent: its address, status and version."""
    found = access.agent(caller_of(request), agent_id)
    return answers.send(request, rendering.agent_of(found))


@router.post(
    "/agents/{agent_id}/start",
    response={202: schemas.QueuedJobs},
    url_name="agent_start",
    openapi_extra=REASON_BODY,
)
def agent_start(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Queue the start of an agent that was stopped or has crashed."""
    caller = caller_of(request)
    found = access.agent_to_manage(caller, agent_id, "deploy_agent")
    reason = bodies.read_reason(request)
    job = running.start_agent(found, actor=caller.actor, reason=reason)
    return _queued(request, [job], found)


@router.post(
    "/agents/{agent_id}/restart",
    response={202: schemas.QueuedJobs},
    url_name="agent_restart",
    openapi_extra=REASON_BODY,
)
def agent_restart(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Queue a new instance beside the running one, with the settings of now."""
    caller = caller_of(request)
    found = access.agent_to_manage(caller, agent_id, "deploy_agent")
    reason = bodies.read_reason(request)
    job = running.restart_agent(found, actor=caller.actor, reason=reason)
    return _queued(request, [job], found)


@router.post(
    "/agents/{agent_id}/scale",
    response=MAYBE_QUEUED,
    url_name="agent_scale",
    openapi_extra=asked.told(asked.Scale),
)
def agent_scale(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Queue so many copies of what runs; kept for the next start when nothing runs."""
    caller = caller_of(request)
    found = access.agent_to_manage(caller, agent_id, "deploy_agent")
    body = reading.read(request, asked.Scale)
    job = running.scale_agent(
        found, body.replicas, actor=caller.actor, reason=body.reason
    )
    return _queued(request, [job] if job else [], found)


@router.post(
    "/agents/{agent_id}/stop",
    response=MAYBE_QUEUED,
    url_name="agent_stop",
    openapi_extra=REASON_BODY,
)
def agent_stop(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Queue the end of the agent's running deployment; the agent stays."""
    caller = caller_of(request)
    found = access.agent_to_manage(caller, agent_id, "stop_agent")
    reason = bodies.read_reason(request)
    jobs = retirement.stop_agent(found, actor=caller.actor, reason=reason)
    return _queued(request, jobs, found)


@router.delete("/agents/{agent_id}", response=MAYBE_QUEUED, url_name="agent")
def agent_delete(
    request: HttpRequest, agent_id: UUID, reason: str = ""
) -> HttpResponse:
    """Queue the end of the agent and of all that runs for it."""
    caller = caller_of(request)
    found = access.agent_to_change(caller, agent_id, "delete_agent")
    why = bodies.checked_reason(reason)
    jobs = retirement.delete_agent(found, actor=caller.actor, reason=why)
    return _queued(request, jobs, found)


def _queued(request: HttpRequest, jobs: list[BuildJob], agent: Agent) -> HttpResponse:
    first = jobs[0].pk if jobs else None
    agent_link = {"agent": rendering.address("agent", agent.pk)}
    body = schemas.QueuedJobs(
        agent_id=agent.pk,
        agent_name=agent.name,
        status="queued" if jobs else "done",
        job_id=first,
        job_ids=[job.pk for job in jobs],
        links=rendering.job_links(first, None, agent.pk) if first else agent_link,
    )
    return answers.send_queued(request, body)
