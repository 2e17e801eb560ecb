"""How is a version built without being deployed? Its artifact waits, ready to be run."""

from __future__ import annotations

from ..builds import results
from ..builds.payloads import StandaloneBuild
from ..queue.context import Context
from ..queue.handlers import handler
from ..queue.outcomes import Done
from . import agents, host
from .agents import Wanted


@handler(
    "standalone_build",
    payload=StandaloneBuild,
    aliases=("StandaloneBuild",),
    **agents.OPTIONS,
)
def standalone_build(ctx: Context, payload: StandaloneBuild) -> Done:
    """Build the source and leave what runs alone."""
    wanted = Wanted(
        build_id=payload.build_id,
        agent_id=payload.agent_id,
        source=payload.source,
        version=payload.version_override or payload.version_tag,
        fixed=payload.version_override is not None,
        env={},
        deploying=False,
    )
    with agents.built(ctx, wanted) as made:
        result = results.Built(
            build_id=payload.build_id,
            version=made.version,
            image_reference=made.artifact.reference,
            digest=made.artifact.digest,
            host=host.host_id(),
        )
    return Done(result=result.model_dump(mode="json"))
