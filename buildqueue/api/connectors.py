"""Which addresses does an MCP connector have? Builds, itself with its tools, its end."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from ..builds.connectors import refreshing, retirement, submission
from ..models import BuildJob, McpConnector, McpConnectorBuild, McpConnectorTool
from ..queue import database
from . import access, answers, asked, bodies, paging, reading, rendering, schemas
from .auth import caller_of
from .receiving import MULTIPART

router = Router(tags=["connectors"])
QUEUED = {202: schemas.QueuedConnectorBuild}


@router.post(
    "/mcp/connectors/upload",
    response=QUEUED,
    url_name="connector_upload",
    openapi_extra=asked.told(asked.ConnectorUpload, MULTIPART),
)
def connector_upload(request: HttpRequest) -> HttpResponse:
    """Take a zip or tar, and queue its build as the caller's connector of that name."""
    caller = caller_of(request)
    body = reading.read(request, asked.ConnectorUpload, only_form=True)
    made = submission.submit_connector(
        owner_id=caller.key,
        caller=caller.actor,
        name=body.name,
        source=body.archive,
        version=body.version,
        env=body.env,
        display_name=body.display_name,
    )
    return _queued(request, made)


@router.post(
    "/mcp/connectors/upload-github",
    response=QUEUED,
    url_name="connector_clone",
    openapi_extra=asked.told(asked.ConnectorClone),
)
def connector_clone(request: HttpRequest) -> HttpResponse:
    """Fetch a repository, and queue its build as the caller's connector of that name."""
    caller = caller_of(request)
    body = reading.read(request, asked.ConnectorClone)
    made = submission.submit_connector(
        owner_id=caller.key,
        caller=caller.actor,
        name=body.name,
        git=body.git,
        version=body.version,
        env=body.env,
        display_name=body.display_name,
    )
    return _queued(request, made)


@router.get("/mcp/connectors", response=schemas.Connectors, url_name="connectors")
def connectors(
    request: HttpRequest, after: UUID | None = None, limit: paging.PageSize = 50
) -> HttpResponse:
    """Return the caller's connectors, newest first."""
    caller = caller_of(request)
    known = access.connectors(caller)
    live = known.filter(deleted_at__isnull=True)
    page = paging.page_of(live, after=after, limit=limit, known=known)
    shown = [rendering.connector_of(row, logs=False) for row in page.rows]
    body = schemas.Connectors(connectors=shown, next=page.next)
    return answers.send(request, body)


@router.get(
    "/mcp/connectors/{connector_id}",
    response=schemas.ConnectorWithTools,
    url_name="connector",
)
def connector(request: HttpRequest, connector_id: UUID) -> HttpResponse:
    """Return a connector: its address, status, and the tools that it offers."""
    caller = caller_of(request)
    found = access.connector(caller, connector_id)
    tools = McpConnectorTool.objects.using(database.alias()).filter(connector=found)
    logs = caller.owns(found.owner_id) or caller.may("view_log")
    body = rendering.connector_with_tools_of(found, tools.order_by("name"), logs=logs)
    return answers.send(request, body)


@router.get(
    "/mcp/connectors/{connector_id}/builds",
    response=schemas.ConnectorBuilds,
    url_name="connector_builds",
)
def connector_builds(
    request: HttpRequest,
    connector_id: UUID,
    after: UUID | None = None,
    limit: paging.PageSize = 50,
) -> HttpResponse:
    """Return the connector's builds, newest first, with the reason of each that failed."""
    caller = caller_of(request)
    found = access.connector_to_change(caller, connector_id, "view_mcpconnectorbuild")
    rows = McpConnectorBuild.objects.using(database.alias()).filter(connector=found)
    page = paging.page_of(rows.defer(*access.HIDDEN), after=after, limit=limit)
    logs = caller.owns(found.owner_id) or caller.may("view_log")
    body = schemas.ConnectorBuilds(
        builds=[rendering.connector_build_of(row, logs=logs) for row in page.rows],
        next=page.next,
    )
    return answers.send(request, body)


@router.post(
    "/mcp/connectors/{connector_id}/refresh",
    response={202: schemas.QueuedOfConnector},
    url_name="connector_refresh",
)
def connector_refresh(request: HttpRequest, connector_id: UUID) -> HttpResponse:
    """Have the running connector asked for its tools again."""
    caller = caller_of(request)
    found = access.connector_to_change(caller, connector_id, "change_mcpconnector")
    reading.read(request, asked.Nothing)
    job = refreshing.refresh_tools(found, actor=caller.actor)
    return _jobs(request, [job], found)


@router.delete(
    "/mcp/connectors/{connector_id}",
    response={(200, 202): schemas.QueuedOfConnector},
    url_name="connector",
)
def connector_delete(
    request: HttpRequest, connector_id: UUID, reason: str = ""
) -> HttpResponse:
    """Queue the end of the connector and of all that runs for it."""
    caller = caller_of(request)
    found = access.connector_to_change(caller, connector_id, "delete_mcpconnector")
    why = bodies.checked_reason(reason)
    jobs = retirement.delete_connector(found, actor=caller.actor, reason=why)
    return _jobs(request, jobs, found)


def _queued(request: HttpRequest, made: submission.ConnectorSubmission) -> HttpResponse:
    job, found = made.job, made.connector
    body = schemas.QueuedConnectorBuild(
        connector_id=found.pk,
        connector_name=found.name,
        job_id=job.pk,
        job_ids=[job.pk],
        build_id=made.build.pk,
        version=made.build.version_tag,
        links=rendering.job_links(job.pk, None, None, found.pk),
    )
    return answers.send_queued(request, body)


def _jobs(
    request: HttpRequest, jobs: list[BuildJob], found: McpConnector
) -> HttpResponse:
    first = jobs[0].pk if jobs else None
    alone = {"connector": rendering.address("connector", found.pk)}
    body = schemas.QueuedOfConnector(
        connector_id=found.pk,
        connector_name=found.name,
        status="queued" if jobs else "done",
        job_id=first,
        job_ids=[job.pk for job in jobs],
        links=rendering.job_links(first, None, None, found.pk) if first else alone,
    )
    return answers.send_queued(request, body)
