"""How is what a cancelled or killed build of a connector left ended? By the runtime.

It may be asked to again; the instance that the address leads to is left alone, unless
the connector has never got that far.
"""

from __future__ import annotations

from ..builds.payloads import ConnectorEnd
from ..queue.context import Context
from ..queue.handlers import handler
from . import base, connectors


@handler("connector_end", payload=ConnectorEnd, services=base.SERVICES)
def connector_end(ctx: Context, payload: ConnectorEnd) -> None:
    """End every instance that is not the connector's server."""
    connector = connectors.target(ctx, payload.connector_id)
    workload_id = str(connector.pk)
    with ctx.step("end instances", transaction=False, again=True):
        runtime = base.running_runtime()
        seen = runtime.status(workload_id)
        kept = seen.active if seen and connector.url else None
        instances = [one.instance_id for one in seen.instances] if seen else []
        left = [one for one in instances if one != kept]
        for instance_id in left:
            runtime.stop_instance(workload_id, instance_id)
        ctx.log(f"{len(left)} instances are ended")
