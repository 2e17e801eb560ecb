"""What is written when somebody asks for a build?

All of it in the caller's transaction, with the job: rolled back, nothing was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from ...exceptions import Refused
from ...models import Agent, AgentBuild, AgentVersion, BuildJob
from ...queue import database
from ...states import AgentStatus, BuildStatus
from .. import versions
from ..payloads import StoredSource

TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBuild:
    """A build that is asked for."""

    id: UUID
    version: str
    source: StoredSource
    triggered_by: str
    changelog: str | None


def open_agent(owner_id: str, name: str, *, writable: bool | None) -> Agent:
    """Return the owner's live agent of that name, locked and deploying; made if new.

    Two first uploads of one name wait for each other here.
    """
    agents = Agent.objects.using(database.alias())
    named = agents.live().filter(owner_id=owner_id, name=name)
    for _ in range(TRIES):
        made = Agent(
            owner_id=owner_id,
            name=name,
            status=AgentStatus.DEPLOYING,
            writable=bool(writable),
        )
        agents.bulk_create([made], ignore_conflicts=True)
        agent = named.select_for_update(no_key=True).first()
        if agent is not None:
            agent.status = AgentStatus.DEPLOYING
            agent.writable = agent.writable if writable is None else writable
            agent.save(using=database.alias(), update_fields=["status", "writable"])
            return agent
    raise Refused(
        "agent_deleted", f"{name} is being deleted just now; try again", status=409
    )


def open_build(agent: Agent, asked: NewBuild, job: BuildJob) -> AgentBuild:
    """Make the queued build of a job and reserve its version."""
    build = AgentBuild(
        id=asked.id,
        agent=agent,
        job=job,
        version_tag=asked.version,
        status=BuildStatus.QUEUED,
        source_key=asked.source.key,
        source_sha256=asked.source.sha256,
        triggered_by=asked.triggered_by,
    )
    build.save(using=database.alias(), force_insert=True)
    versions.reserve(agent, build, changelog=asked.changelog)
    build.refresh_from_db(using=database.alias())
    return build


def active_version(agent: Agent) -> str | None:
    """Return the version that the agent has now."""
    rows = AgentVersion.objects.using(database.alias())
    active = rows.filter(agent=agent, is_active=True)
    return active.values_list("version", flat=True).first()


def version_for(
    agent_id: UUID, build_id: UUID, *, given: str | None, stated: str | None
) -> str:
    """Return the version that a build of the agent may take; refused when taken.

    Ours is always reserved. A build that another system asked for takes what it was
    given, what its source states, or the next, in this order.
    """
    agent = Agent.objects.using(database.alias()).get(pk=agent_id)
    if given is None or versions.numbers(given) is None:
        return versions.choose(agent, wanted=None, stated=stated)
    rows = AgentVersion.objects.using(database.alias())
    if rows.filter(agent=agent, version=given, build_id=build_id).exists():
        return given
    return versions.choose(agent, wanted=given, stated=None)
