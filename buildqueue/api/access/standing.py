"""How near is a caller to an agent? Its owner, one it was opened to, or a stranger.

A grant to everybody shows the agent itself; one to a user its versions, deployments and
builds as well; one to manage lets that user change what runs. What staff may is said by
permissions, beside this.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final
from uuid import UUID

from django.db.models import Q, QuerySet

from ...builds.grants import EVERYBODY
from ...models import Agent, AgentGrant
from ...queue import database
from ...states import GrantType
from ..auth import Caller
from ..problems import refused


class Standing(IntEnum):
    """From nothing to everything; each may what those before it may."""

    STRANGER = 0
    PUBLIC = 1  # sees the agent
    GUEST = 2  # and its history
    MANAGER = 3  # and changes what runs
    OWNER = 4


# With one of them a user of the host may change what runs, of everybody.
ACTING: Final = ("deploy_agent", "stop_agent", "delete_agent")


def of(caller: Caller, agent: Agent) -> Standing:
    """Return how near the caller is to the agent; one that was deleted has no guests."""
    if caller.owns(agent.owner_id):
        return Standing.OWNER
    if agent.deleted_at is not None:
        return Standing.STRANGER
    found = [_of_grant(grant) for grant in grants(caller).filter(agent=agent)]
    return max(found, default=Standing.STRANGER)


def manages(caller: Caller, agent_id: UUID) -> bool:
    """Tell whether a grant lets the caller change what runs of an agent."""
    mine = grants(caller).filter(agent_id=agent_id, agent__deleted_at__isnull=True)
    return mine.filter(can_manage=True).exists()


def grants(caller: Caller) -> QuerySet[AgentGrant]:
    """Return what is opened to the caller, or to everybody."""
    theirs = Q(grant_type=GrantType.USER, grantee_id=caller.key)
    everybodys = Q(grant_type=GrantType.PUBLIC, grantee_id=EVERYBODY)
    return AgentGrant.objects.using(database.alias()).filter(theirs | everybodys)


def forbidden(permission: str) -> Exception:
    """Return the refusal of what is seen and may not be done."""
    return refused(
        "forbidden",
        "you may see this and not do it: ask its owner, who may let you manage an agent, "
        f"or for the permission buildqueue.{permission}",
    )


def _of_grant(grant: AgentGrant) -> Standing:
    if grant.grant_type == GrantType.PUBLIC:
        return Standing.PUBLIC
    return Standing.MANAGER if grant.can_manage else Standing.GUEST
