"""How are an agent's processes ended on a host? The runtime does, and may do so again."""

from __future__ import annotations

from ..builds.lifecycle import stops
from ..builds.payloads import AgentStop
from ..queue.context import Context
from ..queue.handlers import handler
from . import base


@handler(
    "agent_stop",
    payload=AgentStop,
    services=base.SERVICES,
    on_final=stops.on_final,
    on_reopen=stops.on_reopen_stop,
)
def agent_stop(ctx: Context, payload: AgentStop) -> None:
    """End all instances; the address is kept for the next deployment."""
    base.check_target(ctx, payload.agent_id)
    with ctx.step("stop"):
        base.running_runtime().stop(str(payload.agent_id))
        ctx.log("the agent's instances are ended")
