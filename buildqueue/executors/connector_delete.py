"""How does a deleted connector leave a host? Its processes first, then what was built.

The runtime keeps a tombstone, so an executor that is late cannot start it again. Dying
half-way leaves the rest for the next attempt.
"""

from __future__ import annotations

from ..builds.connectors import removal
from ..builds.lifecycle import connectorhealth
from ..builds.payloads import ConnectorDelete
from ..queue.context import Context
from ..queue.handlers import handler
from . import base, connectors


@handler(
    "connector_delete",
    payload=ConnectorDelete,
    services=base.SERVICES,
    on_final=connectorhealth.on_removed,
)
def connector_delete(ctx: Context, payload: ConnectorDelete) -> None:
    """End the connector's processes for ever and remove its artifacts."""
    connector = connectors.target(ctx, payload.connector_id)
    with ctx.step("end processes", transaction=False, again=True):
        base.running_runtime().delete(str(connector.pk))
        ctx.log("the connector's instances are ended, its address is free")
    with ctx.step("remove artifacts", transaction=False, again=True):
        builder = base.builder()
        for reference in removal.artifacts(connector):
            builder.remove(reference)
            ctx.log(f"removed {reference}")
