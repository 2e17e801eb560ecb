"""Which rows belong to a connector, and how are they locked and written?

The connector is locked before its build, and both after the job. What a connector is,
is read from what it has: an instance that was promoted, and builds that are open.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now

from ...models import BuildJob, McpConnector, McpConnectorBuild, McpConnectorTool
from ...queue import database
from ...states import ConnectorBuildStatus, ConnectorStatus
from ..payloads import build_id_of
from ..results import ConnectorTool
from .rows import BUILD_TAGS

OPEN = (ConnectorBuildStatus.PENDING, ConnectorBuildStatus.BUILDING)


def lock_connector(connector_id: UUID | None) -> McpConnector | None:
    """Return the connector, locked until the transaction ends; deleted ones too."""
    connectors = McpConnector.objects.using(database.alias())
    locked = connectors.select_for_update(no_key=True)
    return locked.filter(pk=connector_id).first() if connector_id else None


def lock_build(job: BuildJob, connector: McpConnector) -> McpConnectorBuild | None:
    """Return the build of a connector's job, locked; None when there is none."""
    mine = Q(job_id=job.pk)
    if build_id := build_id_of(job.payload):
        mine |= Q(pk=build_id, job_id__isnull=True)
    builds = McpConnectorBuild.objects.using(database.alias())
    locked = builds.select_for_update(no_key=True)
    found = locked.filter(mine, connector=connector)
    return found.order_by("-created_at").first()


def move_build(
    build: McpConnectorBuild, before: tuple[ConnectorBuildStatus, ...], **values: Any
) -> bool:
    """Change a build that is in one of these states; false when it is not."""
    builds = McpConnectorBuild.objects.using(database.alias())
    return bool(builds.filter(pk=build.pk, status__in=before).update(**values))


def update(connector: McpConnector, **values: Any) -> None:
    """Write columns of a connector that is locked."""
    connectors = McpConnector.objects.using(database.alias())
    connectors.filter(pk=connector.pk).update(**values)


def has_open_build_job(connector_id: UUID) -> bool:
    """Tell whether a build of the connector is queued or under way."""
    jobs = BuildJob.objects.using(database.alias())
    mine = jobs.filter(connector_id=connector_id, kind__in=BUILD_TAGS)
    return mine.filter(completed_at__isnull=True).exists()


def runs(connector: McpConnector) -> bool:
    """Tell whether it has ever been deployed, and does not crash again and again."""
    if not connector.url or connector.crash_reason is not None:
        return False
    builds = McpConnectorBuild.objects.using(database.alias())
    good = builds.filter(connector=connector, status=ConnectorBuildStatus.SUCCESS)
    return good.exists()


def settle(connector: McpConnector) -> None:
    """Write what the connector is now; it must be locked. Of no effect on others'."""
    if connector.build_status is None:
        return
    if runs(connector):
        status = ConnectorStatus.RUNNING
    elif has_open_build_job(connector.pk):
        status = ConnectorStatus.PENDING
    else:
        status = ConnectorStatus.FAILED
    update(connector, build_status=status)


def store_tools(connector: McpConnector, tools: Iterable[ConnectorTool]) -> None:
    """Make these the connector's tools; those it no longer offers are gone."""
    named = {tool.name: tool for tool in tools}
    rows = McpConnectorTool.objects.using(database.alias())
    rows.filter(connector=connector).exclude(name__in=named).delete()
    rows.bulk_create(
        [
            McpConnectorTool(
                connector=connector,
                name=tool.name,
                title=tool.title,
                description=tool.description,
                input_schema=tool.input_schema,
                seen_at=Now(),
            )
            for tool in named.values()
        ],
        update_conflicts=True,
        unique_fields=["connector", "name"],
        update_fields=["title", "description", "input_schema", "seen_at"],
    )
