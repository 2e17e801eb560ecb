"""What is written when a connector's instance is seen again: where, crashed, or back?

The runtime restarts it by itself, with growing pauses; this only tells people, and keeps
the address right. A connector with an open build, or another instance, is left alone.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models.functions import Now

from ...models import BuildJob, McpConnector
from ...queue import database
from ...queue.logs import storable
from ...states import ConnectorStatus, JobStatus
from .. import hosts, results
from .connectorrows import (
    has_open_build_job,
    lock_connector,
    settle,
    store_tools,
    update,
)


def correct(connector: McpConnector, *, url: str, instance_id: UUID, host: str) -> bool:
    """Write where the runtime says it is; false when nothing was wrong."""
    right = {"url": url, "instance_id": instance_id, "host": host}
    if all(getattr(connector, name) == value for name, value in right.items()):
        return False
    return _write(connector, **right)


def note_restarts(connector: McpConnector, restarts: int) -> None:
    """Write how often the runtime had to restart it."""
    rows = McpConnector.objects.using(database.alias()).filter(
        pk=connector.pk, instance_id=connector.instance_id
    )
    rows.exclude(restart_count=restarts).update(restart_count=restarts)


def mark_crashed(connector: McpConnector, *, reason: str, logs: str) -> bool:
    """Write that it does not stay up."""
    return _write(
        connector,
        crash_reason=storable(reason),
        crashed_at=Now(),
        last_logs=storable(logs),
    )


def mark_recovered(connector: McpConnector) -> bool:
    """Write that it has stayed up again."""
    return _write(connector, crash_reason=None)


def on_refreshed(job: BuildJob) -> None:
    """Store the tools that the job has found."""
    connector = lock_connector(job.connector_id)
    if connector is None or job.status != JobStatus.DONE:
        return
    found = results.connector_tools(job)
    if connector.deleted_at is None:
        store_tools(connector, found.tools)


def on_removed(job: BuildJob) -> None:
    """Write that nothing of a deleted connector is left on the job's host."""
    connector = lock_connector(job.connector_id)
    if connector is None or job.status != JobStatus.DONE or connector.host is None:
        return
    if job.requires == hosts.capability(connector.host):
        write_off(connector)


def write_off(connector: McpConnector) -> None:
    """Write that a deleted connector has no instance any more; it must be locked."""
    update(
        connector,
        build_status=ConnectorStatus.FAILED,
        instance_id=None,
        url=None,
        crash_reason=None,
        is_active=False,
    )


def _write(connector: McpConnector, **values: Any) -> bool:
    with database.atomic():
        found = lock_connector(connector.pk)
        if (
            found is None
            or found.deleted_at is not None
            or found.instance_id != connector.instance_id
            or has_open_build_job(found.pk)
        ):
            return False
        update(found, **values)
        found.refresh_from_db(using=database.alias())
        settle(found)
    return True
