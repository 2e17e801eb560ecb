"""How is an agent's environment changed without a build? On its row, encrypted.

Takes effect when its next instance starts. Two that change it at once both count: the
row is locked while what is new is merged into what is there.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from django.db.models.functions import Now

from ..exceptions import Refused
from ..models import Agent
from ..queue import database
from ..queue.outcomes import Actor
from . import environment, secrets
from .lifecycle import rows

logger = logging.getLogger(__name__)


def set_env(agent: Agent, env: Mapping[str, str | None], *, actor: Actor) -> list[str]:
    """Set variables, or remove those that are None; return all names there are then.

    Refused as a whole when one of them is. The values go nowhere but into the row.
    """
    given = {name: value for name, value in env.items() if value is not None}
    secrets.check_env(given)
    fresh = secrets.encrypt_env(agent.owner_id, given)
    with database.atomic():
        found = rows.lock_agent(agent.pk)
        if found is None or found.deleted_at is not None:
            raise Refused("agent_deleted", "the agent was deleted", status=409)
        merged = {k: v for k, v in found.secrets_env.items() if k not in env} | fresh
        secrets.check_stored({**merged, **environment.env_to_come(found)})
        agents = Agent.objects.using(database.alias()).filter(pk=agent.pk)
        agents.update(secrets_env=merged, updated_at=Now())
    logger.info(
        "environment changed",
        extra={"agent": str(agent.pk), "actor": actor.label, "names": sorted(env)},
    )
    return sorted(merged)
