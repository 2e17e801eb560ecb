"""How does a deleted agent leave a host? Its processes first, then what was built.

The runtime keeps a tombstone, so an executor that is late cannot start it again. Dying
half-way leaves the rest for the next attempt.
"""

from __future__ import annotations

from ..builds import artifacts
from ..builds.lifecycle import stops
from ..builds.payloads import AgentDelete
from ..queue.context import Context
from ..queue.handlers import handler
from . import base


@handler(
    "agent_delete",
    payload=AgentDelete,
    services=base.SERVICES,
    on_final=stops.on_final,
)
def agent_delete(ctx: Context, payload: AgentDelete) -> None:
    """End the agent's processes for ever and remove its artifacts."""
    base.check_target(ctx, payload.agent_id)
    with ctx.step("end processes"):
        base.running_runtime().delete(str(payload.agent_id))
        ctx.log("the agent's instances are ended, its address is free")
    with ctx.step("remove artifacts"):
        builder = base.builder()
        for reference in artifacts.of_agent(payload.agent_id):
            builder.remove(reference)
            ctx.log(f"removed {reference}")
