"""How is an instance ended whose build was cancelled or killed before the switch?

The runtime does, and may do so again; one that was promoted meanwhile is left alone.
"""

from __future__ import annotations

from ..builds.payloads import InstanceEnd
from ..queue.context import Context
from ..queue.handlers import handler
from . import base


@handler("instance_end", payload=InstanceEnd, services=base.SERVICES)
def instance_end(ctx: Context, payload: InstanceEnd) -> None:
    """End the instance unless the agent's address leads to it."""
    base.check_target(ctx, payload.agent_id)
    agent, instance = str(payload.agent_id), str(payload.instance_id)
    with ctx.step("end instance"):
        runtime = base.running_runtime()
        workload = runtime.status(agent)
        if workload is None or workload.active == instance:
            ctx.log("there is nothing to end")
            return
        runtime.stop_instance(agent, instance)
        ctx.log("the instance is ended")
