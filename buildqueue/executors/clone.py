"""How is a legacy row executed whose archive another system has fetched? As an upload.

Nothing enqueues this kind any more.
"""

from __future__ import annotations

from ..builds.payloads import Clone
from ..queue.context import Context
from ..queue.handlers import handler
from ..queue.outcomes import Done
from . import agents
from .agents import Wanted


@handler("clone", payload=Clone, aliases=("Clone",), **agents.OPTIONS)
def clone(ctx: Context, payload: Clone) -> Done:
    """Build the archive and lead the agent's address to it."""
    wanted = Wanted(
        build_id=payload.build_id,
        agent_id=payload.agent_id,
        source=payload.source,
        version=payload.agent_version,
        fixed=False,
        spec=payload.spec,
        env=payload.env,
    )
    return Done(result=agents.build_and_deploy(ctx, wanted).model_dump(mode="json"))
