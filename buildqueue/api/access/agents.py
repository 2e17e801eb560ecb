"""Which agents may a caller see and change, and which builds of them see?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db.models import QuerySet

from ...models import Agent, AgentBuild
from ...models.agents import AgentQuerySet
from ...queue import database
from ..auth import Caller
from ..problems import refused
from . import standing
from .standing import Standing, forbidden

# What no answer holds, and so no request reads.
HIDDEN: Final = ("source_token", "secrets_env")


def agents(caller: Caller) -> AgentQuerySet:
    """Return the caller's agents, or all where permissions say so; deleted ones too.

    None that others opened to the caller: who looks for an agent of their own by its
    name must not be shown another one.
    """
    every = AgentQuerySet(Agent, using=database.alias())
    return every if caller.may("view_agent") else every.for_owner(caller.key)


def shared_agents(caller: Caller) -> AgentQuerySet:
    """Return the agents of others that are opened to the caller, or to everybody."""
    opened = standing.grants(caller).values("agent_id")
    every = AgentQuerySet(Agent, using=database.alias())
    return every.filter(pk__in=opened).exclude(owner_id=caller.key)


def agent(caller: Caller, agent_id: UUID) -> Agent:
    """Return an agent that the caller may see."""
    return _seen(caller, agent_id)[0]


def agent_with_history(caller: Caller, agent_id: UUID, permission: str) -> Agent:
    """Return an agent whose versions, deployments or builds the caller may see."""
    found, near = _seen(caller, agent_id)
    if near >= Standing.GUEST or caller.may(permission):
        return found
    raise forbidden(permission)


def agent_to_manage(caller: Caller, agent_id: UUID, permission: str) -> Agent:
    """Return an agent of which the caller may change what runs."""
    found, near = _seen(caller, agent_id)
    if near >= Standing.MANAGER or caller.may(permission):
        return found
    raise forbidden(permission)


def agent_to_change(caller: Caller, agent_id: UUID, permission: str) -> Agent:
    """Return an agent that is the caller's, or that the permission lets them change."""
    found, near = _seen(caller, agent_id)
    if near == Standing.OWNER or caller.may(permission):
        return found
    raise forbidden(permission)


def own_agent(caller: Caller, agent_id: UUID) -> Agent:
    """Return an agent of the caller's: to whom it is opened is nobody else's to say."""
    found, near = _seen(caller, agent_id)
    if near == Standing.OWNER:
        return found
    raise refused("forbidden", "only the agent's owner opens and closes it to others")


def check_secrets(caller: Caller, agent: Agent) -> None:
    """Refuse who may not touch the environment and the secrets of an agent's owner.

    A secret that is named goes to the repository that is named beside it.
    """
    if not (caller.owns(agent.owner_id) or caller.may("change_agent")):
        raise refused(
            "forbidden",
            "the environment and the secrets of an agent are its owner's: leave out "
            "'env' and 'secret'",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a caller sees of an agent's history besides its rows."""

    env: bool  # the names of an environment
    logs: bool
    jobs: bool


def sight(caller: Caller, agent: Agent) -> Sight:
    """Return what the caller sees of the agent's history."""
    near = standing.of(caller, agent)
    return Sight(
        env=near == Standing.OWNER or caller.may("view_agentdeployment"),
        logs=near >= Standing.GUEST or caller.may("view_log"),
        jobs=near >= Standing.MANAGER or caller.may("view_buildjob"),
    )


def builds(caller: Caller, agent_id: UUID | None) -> QuerySet[AgentBuild]:
    """Return the builds of the caller's agents, or of one that the caller may see."""
    rows = _builds()
    if agent_id is not None:
        found = agent_with_history(caller, agent_id, "view_agentbuild")
        return rows.filter(agent=found)
    if caller.may("view_agentbuild"):
        return rows
    return rows.filter(agent__owner_id=caller.key)


def build(caller: Caller, build_id: UUID) -> AgentBuild:
    """Return a build that the caller may see, with its agent."""
    one = _builds().filter(pk=build_id).first()
    if one and (
        caller.may("view_agentbuild")
        or standing.of(caller, one.agent) >= Standing.GUEST
    ):
        return one
    raise refused("build_not_found", f"there is no build {build_id} of yours")


def build_to_read_log(caller: Caller, build_id: UUID) -> AgentBuild:
    """Return a build whose log the caller may read."""
    found = build(caller, build_id)
    if sight(caller, found.agent).logs:
        return found
    raise forbidden("view_log")


def _builds() -> QuerySet[AgentBuild]:
    rows = AgentBuild.objects.using(database.alias()).select_related("agent")
    return rows.defer(*HIDDEN, "agent__secrets_env")


def _seen(caller: Caller, agent_id: UUID) -> tuple[Agent, Standing]:
    live = AgentQuerySet(Agent, using=database.alias()).live()
    if one := live.filter(pk=agent_id).first():
        near = standing.of(caller, one)
        if near > Standing.STRANGER or caller.may("view_agent"):
            return one, near
    raise refused("agent_not_found", f"there is no agent {agent_id} of yours")
