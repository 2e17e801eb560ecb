"""What becomes of a connector's build and status when its job ends?

The same promises as for agents, in plain form: job and build agree, and a connector
whose new build failed is what its last good build made it.
"""

from __future__ import annotations

from typing import Any

from django.db.models import Q
from django.db.models.functions import Now

from ...exceptions import Refused, ResultMissing
from ...models import BuildJob, McpConnector, McpConnectorBuild
from ...queue import database
from ...states import ConnectorBuildStatus, ConnectorStatus, JobStatus
from .. import results
from ..payloads import build_id_of

OPEN = (ConnectorBuildStatus.PENDING, ConnectorBuildStatus.BUILDING)


def finish(job: BuildJob) -> None:
    """Drive the connector and its build to a final state."""
    connector = _lock_connector(job)
    if connector is None:
        return
    build = _lock_build(job, connector)
    if job.status == JobStatus.DONE:
        _succeed(job, connector, build)
    else:
        _fail(job, connector, build)


def reopen(job: BuildJob) -> None:
    """Put the build and the connector back to pending."""
    connector = _lock_connector(job)
    if connector is None or connector.deleted_at is not None:
        raise Refused("connector_deleted", "the connector was deleted", status=409)
    build = _lock_build(job, connector)
    if build is None:
        raise Refused("build_missing", "the job has no build any more", status=409)
    _move(
        build,
        (*OPEN, ConnectorBuildStatus.FAILED),
        status=ConnectorBuildStatus.PENDING,
        completed_at=None,
        phase=None,
        error_code=None,
        error_msg=None,
    )
    if not _runs(connector):
        _update(connector, build_status=ConnectorStatus.PENDING)


def _succeed(
    job: BuildJob, connector: McpConnector, build: McpConnectorBuild | None
) -> None:
    result = results.connector_deployed(job)
    if build is None or build.pk != result.build_id:
        raise ResultMissing("the job said done, but its build's row is not there")
    if connector.deleted_at is not None:
        raise ResultMissing("the connector was deleted while it was being deployed")
    if not _move(
        build,
        OPEN,
        status=ConnectorBuildStatus.SUCCESS,
        image_tag=result.image_reference,
        completed_at=Now(),
        error_code=None,
        error_msg=None,
    ):
        raise ResultMissing(f"the job said done, but its build is {build.status}")
    _update(
        connector,
        build_status=ConnectorStatus.RUNNING,
        url=result.service_url,
        container_image_tag=result.image_reference,
        is_active=True,
    )


def _fail(
    job: BuildJob, connector: McpConnector, build: McpConnectorBuild | None
) -> None:
    if build is not None:
        _move(
            build,
            OPEN,
            status=ConnectorBuildStatus.FAILED,
            error_code=job.error_code or job.status,
            error_msg=job.error_msg or job.status,
            completed_at=Now(),
        )
    if connector.build_status is None:
        return  # an external one: it has no builds
    status = ConnectorStatus.RUNNING if _runs(connector) else ConnectorStatus.FAILED
    _update(connector, build_status=status)


def _runs(connector: McpConnector) -> bool:
    builds = McpConnectorBuild.objects.using(database.alias())
    good = builds.filter(connector=connector, status=ConnectorBuildStatus.SUCCESS)
    return bool(connector.url) and good.exists()


def _move(
    build: McpConnectorBuild, before: tuple[ConnectorBuildStatus, ...], **values: Any
) -> bool:
    builds = McpConnectorBuild.objects.using(database.alias())
    return bool(builds.filter(pk=build.pk, status__in=before).update(**values))


def _lock_connector(job: BuildJob) -> McpConnector | None:
    connectors = McpConnector.objects.using(database.alias())
    locked = connectors.select_for_update(no_key=True)
    return locked.filter(pk=job.connector_id).first() if job.connector_id else None


def _lock_build(job: BuildJob, connector: McpConnector) -> McpConnectorBuild | None:
    mine = Q(job_id=job.pk)
    if build_id := build_id_of(job.payload):
        mine |= Q(pk=build_id, job_id__isnull=True)
    builds = McpConnectorBuild.objects.using(database.alias())
    locked = builds.select_for_update(no_key=True)
    found = locked.filter(mine, connector=connector)
    return found.order_by("-created_at").first()


def _update(connector: McpConnector, **values: Any) -> None:
    connectors = McpConnector.objects.using(database.alias())
    connectors.filter(pk=connector.pk).update(**values)
