"""How does an uploaded source become a running agent?"""

from __future__ import annotations

from ..builds.payloads import Upload
from ..queue.context import Context
from ..queue.handlers import handler
from ..queue.outcomes import Done
from . import agents
from .agents import Wanted


@handler("upload", payload=Upload, aliases=("Upload",), **agents.OPTIONS)
def upload(ctx: Context, payload: Upload) -> Done:
    """Build the source and lead the agent's address to it."""
    wanted = Wanted(
        build_id=payload.build_id,
        agent_id=payload.agent_id,
        source=payload.source,
        version=payload.agent_version,
        fixed=True,
        spec=payload.spec,
        env=payload.env,
    )
    return Done(result=agents.build_and_deploy(ctx, wanted).model_dump(mode="json"))
