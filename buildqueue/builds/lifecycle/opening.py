"""What is written when somebody asks for a build?

All of it in the caller's transaction, with the job: rolled back, nothing was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from ...exceptions import Refused
from ...models import Agent, AgentBuild, AgentVersion, BuildJob
from ...queue import database
from ...states import AgentStatus, BuildStatus
from .. import versions
from ..payloads import GitSource, Source, StoredSource
from .rows import lock_agent

TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBuild:
    """A build that is asked for."""

    id: UUID
    version: str
    triggered_by: str
    source: Source | None = None
    token: str | None = None  # encrypted
    secrets_env: Mapping[str, str] = field(default_factory=dict)  # encrypted
    changelog: str | None = None
    image: str = ""  # of a version that was built before


def open_agent(owner_id: str, name: str) -> Agent:
    """Return the owner's live agent of that name, locked and deploying; made if new.

    Two first uploads of one name wait for each other here.
    """
    agents = Agent.objects.using(database.alias())
    named = agents.live().filter(owner_id=owner_id, name=name)
    for _ in range(TRIES):
        made = Agent(owner_id=owner_id, name=name, status=AgentStatus.DEPLOYING)
        agents.bulk_create([made], ignore_conflicts=True)
        agent = named.select_for_update(no_key=True).first()
        if agent is not None:
            return _deploying(agent)
    raise Refused(
        "agent_deleted", f"{name} is being deleted just now; try again", status=409
    )


def reopen_agent(agent: Agent, *, deploying: bool = True) -> Agent:
    """Return the agent, locked, and shown as deploying; refused when it was deleted."""
    found = lock_agent(agent.pk)
    if found is None or found.deleted_at is not None:
        raise Refused("agent_deleted", "the agent was deleted", status=409)
    return _deploying(found) if deploying else found


def open_build(
    agent: Agent, asked: NewBuild, job: BuildJob, *, reserve: bool = True
) -> AgentBuild:
    """Make the queued build of a job, and reserve its version unless it was built."""
    source = asked.source
    build = AgentBuild(
        id=asked.id,
        agent=agent,
        job=job,
        version_tag=asked.version,
        image_reference=asked.image,
        status=BuildStatus.QUEUED,
        triggered_by=asked.triggered_by,
        source_token=asked.token,
        secrets_env=dict(asked.secrets_env),
    )
    if isinstance(source, StoredSource):
        build.source_key, build.source_sha256 = source.key, source.sha256
        build.source_size = source.size
    elif isinstance(source, GitSource):
        build.github_url, build.source_ref = source.url, source.ref
        build.commit_hash, build.source_secret = source.commit, source.secret
    build.save(using=database.alias(), force_insert=True)
    if reserve:
        versions.reserve(agent, build, changelog=asked.changelog)
    build.refresh_from_db(using=database.alias())
    return build


def _deploying(agent: Agent) -> Agent:
    agent.status = AgentStatus.DEPLOYING
    agent.save(using=database.alias(), update_fields=["status"])
    return agent


def active_version(agent: Agent) -> str | None:
    """Return the version that the agent has now."""
    rows = AgentVersion.objects.using(database.alias())
    active = rows.filter(agent=agent, is_active=True)
    return active.values_list("version", flat=True).first()


def version_of(
    agent_id: UUID, build_id: UUID, *, given: str | None, fixed: bool, tree: Path
) -> str:
    """Return the version that a build gets, now that its source can be read.

    A fixed one was asked for, or reserved for a source that was read before. Otherwise
    the source's own is taken when it is free. What another system has asked for was
    reserved by nobody: it takes what it was given, what its source states, or the next.
    """
    agent = Agent.objects.using(database.alias()).get(pk=agent_id)
    build = AgentBuild.objects.using(database.alias()).get(pk=build_id)
    rows = AgentVersion.objects.using(database.alias())
    if rows.filter(agent=agent, build=build, version=build.version_tag).exists():
        stated = None if fixed else versions.read_version(tree)
        moved = stated is not None and versions.rename(build, stated)
        return stated if moved and stated else build.version_tag
    if given is not None and versions.numbers(given) is not None:
        return versions.choose(agent, wanted=given, stated=None)
    return versions.choose(agent, wanted=None, stated=versions.read_version(tree))
