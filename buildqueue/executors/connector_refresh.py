"""How does a running connector tell its tools again? It is asked, and the answer stored."""

from __future__ import annotations

from ..backends.masking import Masker
from ..builds import results
from ..builds.lifecycle import connectorhealth
from ..builds.payloads import ConnectorRefresh
from ..exceptions import BackendError, Unavailable
from ..queue.context import Context
from ..queue.handlers import handler
from ..queue.outcomes import Done
from . import base, connectors, seeing


@handler(
    "connector_refresh",
    payload=ConnectorRefresh,
    services=base.SERVICES,
    on_final=connectorhealth.on_refreshed,
)
def connector_refresh(ctx: Context, payload: ConnectorRefresh) -> Done:
    """Ask the instance that the connector's address leads to."""
    from ..backends.mcpprobe import ask_instance

    connector = connectors.target(ctx, payload.connector_id)
    masker = Masker(connectors.environment_of(connector, {}).values())
    with ctx.step("ask for tools", transaction=False, again=True) as step:
        active = seeing.active_of(base.running_runtime().status(str(connector.pk)))
        if active is None:
            raise Unavailable("mcp_not_ready", "the connector does not run now")
        try:
            tools = ask_instance(active, mask=masker.mask)
        except BackendError as error:
            raise base.masked_error(error, masker) from None
        ctx.log(f"tools that it offers: {len(tools)}")
        step.result = connectors.told(tools, masker)
    found = results.ConnectorTools(tools=step.result)
    return Done(result=found.model_dump(mode="json"))
