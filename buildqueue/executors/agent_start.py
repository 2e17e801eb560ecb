"""How is an agent started again, or restarted without a pause?

Its active version runs in a new instance, beside the old one if there is one, with the
environment and limits that the agent has now. What runs goes on when the new one fails.
"""

from __future__ import annotations

from ..backends.masking import Masker
from ..builds import environment
from ..builds.lifecycle import deploying, starts
from ..builds.payloads import AgentStart, Spec
from ..exceptions import Rejected
from ..models import Agent, AgentVersion
from ..queue import database
from ..queue.context import Context
from ..queue.handlers import handler
from ..queue.outcomes import Done
from . import base
from .base import Run
from .instances import Instance


@handler(
    "agent_start",
    payload=AgentStart,
    isolated=True,
    services=base.SERVICES,
    on_final=starts.on_final,
    on_reopen=starts.on_reopen,
)
def agent_start(ctx: Context, payload: AgentStart) -> Done:
    """Deploy what the agent's active version is, and switch to it."""
    base.check_target(ctx, payload.agent_id)
    agent = Agent.objects.using(database.alias()).get(pk=payload.agent_id)
    rows = AgentVersion.objects.using(database.alias())
    version = rows.filter(agent=agent, is_active=True).first()
    if version is None or version.build_id is None:
        raise Rejected("nothing_to_start", "the agent has no active version to start")
    if not base.builder().exists(version.image_tag):
        raise Rejected(
            "artifact_missing",
            f"what was built for version {version.version} is not on this host; stop "
            "the agent and deploy that version, which builds it again",
        )
    env = environment.environment_of(agent, {})
    run = Run(ctx=ctx, target_id=agent.pk, masker=Masker(env.values()))
    used = base.running_runtime()
    asked = Instance(
        agent=agent,
        build_id=version.build_id,
        reference=version.image_tag,
        spec=Spec(),
        declared=deploying.ports_of(agent.pk, version.image_tag),
        env=env,
    )
    live = asked.deploy(run, used)
    result = asked.result(
        live,
        used,
        version=version.version,
        digest=version.image_tag.rpartition("@")[2],
        built=False,
    )
    return Done(result=result.model_dump(mode="json"))
