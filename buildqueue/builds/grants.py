"""To whom is an agent opened? To users by their key, to look or to manage; to everybody.

Each change is one transaction on the agent's locked row, of no effect when repeated. What
a grant allows is the callers' to know; that everybody never manages, the database keeps.
"""

from __future__ import annotations

import logging

from django.db.models import QuerySet

from ..exceptions import Refused
from ..models import Agent, AgentGrant
from ..queue import database
from ..queue.logs import storable
from ..queue.outcomes import Actor
from ..states import GrantType
from .lifecycle import rows

logger = logging.getLogger(__name__)

EVERYBODY = "*"
MOST_GRANTS = 200  # of one agent
MOST_KEY = 100  # characters


def grants_of(agent: Agent) -> list[AgentGrant]:
    """Return an agent's grants, oldest first."""
    return list(_grants(agent).order_by("created_at", "pk"))


def open_to_user(
    agent: Agent, user_key: str, *, can_manage: bool = False, actor: Actor
) -> AgentGrant:
    """Open the agent to a user; another grant of theirs is changed to this one."""
    is_key = len(user_key) <= MOST_KEY and storable(user_key) == user_key
    if not is_key or user_key in ("", EVERYBODY, agent.owner_id):
        why = "name a user besides the owner"
        raise Refused("invalid_grant", why, fields={"user": why})
    return _open(agent, GrantType.USER, user_key, can_manage=can_manage, actor=actor)


def open_to_everybody(agent: Agent, *, actor: Actor) -> AgentGrant:
    """Let everybody see the agent, and nothing of its history."""
    return _open(agent, GrantType.PUBLIC, EVERYBODY, can_manage=False, actor=actor)


def close(agent: Agent, grant_type: GrantType, grantee: str, *, actor: Actor) -> bool:
    """Take a grant back; false when there is none."""
    with database.atomic():
        found = _locked(agent)
        removed, _ = (
            _grants(found).filter(grant_type=grant_type, grantee_id=grantee).delete()
        )
        if grant_type == GrantType.PUBLIC:
            _show(found, public=False)
    _tell("agent closed", agent, grantee, actor)
    return removed > 0


def _open(
    agent: Agent, grant_type: GrantType, grantee: str, *, can_manage: bool, actor: Actor
) -> AgentGrant:
    with database.atomic():
        found = _locked(agent)
        mine = _grants(found).filter(grant_type=grant_type, grantee_id=grantee)
        if not mine.exists() and _grants(found).count() >= MOST_GRANTS:
            raise Refused(
                "too_many_grants",
                f"the agent is open to {MOST_GRANTS} users: take one back first",
                status=409,
            )
        made = AgentGrant(
            agent=found,
            grant_type=grant_type,
            grantee_id=grantee,
            can_manage=can_manage,
        )
        AgentGrant.objects.using(database.alias()).bulk_create(
            [made],
            update_conflicts=True,
            unique_fields=["agent", "grant_type", "grantee_id"],
            update_fields=["can_manage"],
        )
        if grant_type == GrantType.PUBLIC:
            _show(found, public=True)
    _tell("agent opened", agent, grantee, actor)
    return mine.get()


def _show(agent: Agent, *, public: bool) -> None:
    """Have the agent's own column say the same."""
    agents = Agent.objects.using(database.alias()).filter(pk=agent.pk)
    agents.update(is_public=public)


def _tell(message: str, agent: Agent, grantee: str, actor: Actor) -> None:
    facts = {"agent": str(agent.pk), "grantee": grantee, "actor": actor.label}
    logger.info(message, extra=facts)


def _grants(agent: Agent) -> QuerySet[AgentGrant]:
    return AgentGrant.objects.using(database.alias()).filter(agent=agent)


def _locked(agent: Agent) -> Agent:
    found = rows.lock_agent(agent.pk)
    if found is None or found.deleted_at is not None:
        raise Refused("agent_deleted", "the agent was deleted", status=409)
    return found
