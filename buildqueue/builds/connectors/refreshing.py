"""How are a connector's tools brought up to date? By a job on the host that runs it."""

from __future__ import annotations

from ...exceptions import Refused
from ...models import BuildJob, McpConnector
from ...queue import database
from ...queue.enqueueing import enqueue
from ...queue.outcomes import Actor
from ...states import ConnectorStatus
from .. import hosts
from ..lifecycle import connectorrows
from ..payloads import ConnectorRefresh
from . import removal


def refresh_tools(connector: McpConnector, *, actor: Actor) -> BuildJob:
    """Ask the running connector for its tools again; asked twice it is one job."""
    with database.atomic():
        found = connectorrows.lock_connector(connector.pk)
        if found is None or found.deleted_at is not None:
            raise Refused("connector_deleted", "the connector was deleted", status=409)
        runs = found.build_status == ConnectorStatus.RUNNING
        if not runs or found.host is None or hosts.is_gone(found.host):
            raise Refused(
                "connector_not_running",
                "the connector runs on no host of ours that could be asked now; its "
                "tools are read when it is uploaded and runs",
                status=409,
            )
        return enqueue(
            ConnectorRefresh(connector_id=found.pk),
            owner_id=actor.id or found.owner_id or "",
            connector_id=found.pk,
            serial_key=removal.serial_key(found),
            dedupe_key=f"connector_refresh:{found.pk}",
            on_duplicate="return",
            requires=hosts.capability(found.host),
            actor=actor,
        )
