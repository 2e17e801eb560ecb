"""How does a repository become a running agent?

The version that was asked for is taken as it is; otherwise the source's own, when it is
free, and the reserved one when it is not.
"""

from __future__ import annotations

from ..builds.payloads import GithubClone
from ..queue.context import Context
from ..queue.handlers import handler
from ..queue.outcomes import Done
from . import agents
from .agents import Wanted


@handler(
    "github_clone", payload=GithubClone, aliases=("GithubClone",), **agents.OPTIONS
)
def github_clone(ctx: Context, payload: GithubClone) -> Done:
    """Fetch the repository, build it, and lead the agent's address to it."""
    wanted = Wanted(
        build_id=payload.build_id,
        agent_id=payload.agent_id,
        source=payload.source,
        version=payload.version_override or payload.agent_version,
        fixed=payload.version_override is not None,
        spec=payload.spec,
        env=payload.env,
    )
    return Done(result=agents.build_and_deploy(ctx, wanted).model_dump(mode="json"))
