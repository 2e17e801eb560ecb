"""How does an agent get a new version, from a new source or from where it came before?"""

from __future__ import annotations

from ..builds.origins import origin_of
from ..builds.payloads import Update
from ..queue.context import Context
from ..queue.handlers import handler
from ..queue.outcomes import Done
from . import agents
from .agents import Wanted


@handler("update", payload=Update, aliases=("Update",), **agents.OPTIONS)
def update(ctx: Context, payload: Update) -> Done:
    """Build the new version and lead the agent's address to it."""
    wanted = Wanted(
        build_id=payload.build_id,
        agent_id=payload.agent_id,
        source=payload.source or origin_of(payload.agent_id).source,
        version=payload.new_version,
        fixed=True,
        spec=payload.spec,
        env=payload.env,
    )
    return Done(result=agents.build_and_deploy(ctx, wanted).model_dump(mode="json"))
