"""Which versions has an agent, and where were they deployed?"""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from ..builds import versions
from ..models import AgentDeployment, AgentVersion
from ..queue import database
from ..queue.logs import storable
from . import access, answers, paging, rendering, schemas
from .auth import caller_of

router = Router(tags=["agents"])


@router.get(
    "/agents/{agent_id}/versions", response=schemas.Versions, url_name="agent_versions"
)
def agent_versions(
    request: HttpRequest,
    agent_id: UUID,
    after: UUID | None = None,
    limit: paging.PageSize = 50,
) -> HttpResponse:
    """Return the agent's versions, newest first, and what the next one would be."""
    caller = caller_of(request)
    found = access.agent_with_history(caller, agent_id, "view_agentversion")
    rows = AgentVersion.objects.using(database.alias()).filter(agent=found)
    page = paging.page_of(rows, after=after, limit=limit)
    body = schemas.Versions(
        versions=[rendering.version_of(row) for row in page.rows],
        next=schemas.NextVersions(**versions.suggested(found)),
        next_page=page.next,
    )
    return answers.send(request, body)


@router.delete(
    "/agents/{agent_id}/versions/{version}",
    response={204: None},
    url_name="agent_version",
)
def agent_version_delete(
    request: HttpRequest, agent_id: UUID, version: str
) -> HttpResponse:
    """Forget a version that neither runs nor is being built."""
    caller = caller_of(request)
    found = access.agent_to_change(caller, agent_id, "delete_agent")
    versions.delete_version(found, storable(version))
    return answers.send_nothing()


@router.get(
    "/agents/{agent_id}/deployments",
    response=schemas.Deployments,
    url_name="agent_deployments",
)
def agent_deployments(
    request: HttpRequest,
    agent_id: UUID,
    after: UUID | None = None,
    limit: paging.PageSize = 50,
) -> HttpResponse:
    """Return where the agent was deployed, how, and what became of it."""
    caller = caller_of(request)
    found = access.agent_with_history(caller, agent_id, "view_agentdeployment")
    rows = AgentDeployment.objects.using(database.alias()).filter(agent=found)
    hidden = [f"build__{name}" for name in (*access.HIDDEN, "logs")]
    joined = rows.select_related("build").defer(*hidden)
    page = paging.page_of(joined, after=after, limit=limit)
    sight = access.sight(caller, found)
    body = schemas.Deployments(
        deployments=[
            rendering.deployment_of(row, env=sight.env, logs=sight.logs)
            for row in page.rows
        ],
        next=page.next,
    )
    return answers.send(request, body)
