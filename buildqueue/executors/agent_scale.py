"""How does an agent get more copies, or fewer? The runtime adds and drains them."""

from __future__ import annotations

from ..builds.lifecycle import starts
from ..builds.payloads import AgentScale
from ..queue.context import Context
from ..queue.handlers import handler
from . import base


@handler(
    "agent_scale",
    payload=AgentScale,
    services=base.SERVICES,
    on_final=starts.on_final_scale,
    on_reopen=starts.on_reopen,
)
def agent_scale(ctx: Context, payload: AgentScale) -> None:
    """Run so many copies of the instance behind the agent's address."""
    base.check_target(ctx, payload.agent_id)
    with ctx.step("scale", transaction=False, again=True):
        used = base.running_runtime()
        workload = used.scale(str(payload.agent_id), payload.replicas)
        ctx.log(f"the agent runs in {workload.replicas} copies")
