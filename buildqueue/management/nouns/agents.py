"""What does an operator see of agents? Them, their history, and what they print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db.models import QuerySet

from ...builds import grants, versions
from ...executors import base, host
from ...models import Agent, AgentBuild, AgentDeployment, AgentVersion
from ...states import DeploymentStatus
from ..finding import NotFound
from ..shown import cut, moment, short
from . import owners, rows
from .naming import find_agent
from .showing import Answer, commit, facts, table

Options = Mapping[str, Any]


def listing(options: Options) -> Answer:
    """Return the newest agents."""
    found = Agent.objects.all() if options["deleted"] else Agent.objects.live()
    if options["owner"]:
        found = found.for_owner(owners.likely_key(options["owner"]))
    agents = list(found.order_by("-created_at", "-id")[: options["limit"]])
    told = (
        (
            each.pk,
            cut(each.owner_id),
            each.name,
            "deleted" if each.deleted_at else each.status,
            each.version,
            each.url,
        )
        for each in agents
    )
    return Answer(
        document={"agents": [rows.agent(each) for each in agents]},
        lines=table("id owner name status version url", told),
    )


def show(options: Options) -> Answer:
    """Return an agent with its newest deployment and build."""
    agent = find_agent(options["agent"])
    deployment, build = _deployments(agent).first(), _builds(agent).first()
    known = rows.agent(agent)
    document = known | {
        "deployment": rows.deployment(deployment) if deployment else None,
        "build": rows.build(build) if build else None,
    }
    return Answer(document=document, lines=_shown(known, deployment, build))


def _shown(
    known: Mapping[str, Any],
    deployment: AgentDeployment | None,
    build: AgentBuild | None,
) -> Iterator[str]:
    yield from facts(known)
    for title, told in (
        ("deployment", rows.deployment(deployment) if deployment else None),
        ("build", rows.build(build) if build else None),
    ):
        if told:
            yield ""
            yield title
            yield from (f"  {line}" for line in facts(told))


def version_list(options: Options) -> Answer:
    """Return an agent's newest versions, and what the next could be."""
    agent = find_agent(options["agent"])
    ordered = AgentVersion.objects.filter(agent=agent).order_by("-created_at", "-id")
    found = list(ordered[: options["limit"]])
    suggested = versions.suggested(agent)
    document = {
        "agent_id": agent.pk,
        "agent_name": agent.name,
        "versions": [rows.version(each) for each in found],
        "next": suggested,
    }
    return Answer(document=document, lines=_version_lines(found, suggested))


def _version_lines(
    found: Sequence[AgentVersion], suggested: Mapping[str, str]
) -> Iterator[str]:
    told = (
        (
            each.version,
            each.status,
            each.can_rollback,
            each.previous_version,
            moment(each.created_at),
            (each.changelog or "")[:60],
        )
        for each in found
    )
    yield from table("version status rollback before created changelog", told)
    listed = ", ".join(f"{step} {version}" for step, version in suggested.items())
    yield f"next: {listed}"


def deployment_list(options: Options) -> Answer:
    """Return an agent's newest deployments."""
    agent = find_agent(options["agent"])
    found = list(_deployments(agent)[: options["limit"]])
    told = (
        (
            each.pk,
            each.build.version_tag,
            each.status,
            each.replicas,
            each.restart_count,
            moment(each.created_at),
            short(each.host),
            each.crash_reason,
        )
        for each in found
    )
    return Answer(
        document=_of(agent, "deployments", [rows.deployment(each) for each in found]),
        lines=table("id version status replicas restarts created host reason", told),
    )


def build_list(options: Options) -> Answer:
    """Return an agent's newest builds."""
    agent = find_agent(options["agent"])
    found = list(_builds(agent)[: options["limit"]])
    told = (
        (
            each.pk,
            each.version_tag,
            each.status,
            each.phase,
            moment(each.created_at),
            short(each.job_id),
            commit(each.commit_hash),
            each.error_code,
        )
        for each in found
    )
    return Answer(
        document=_of(agent, "builds", [rows.build(each) for each in found]),
        lines=table("id version status phase created job commit error", told),
    )


def grant_list(options: Options) -> Answer:
    """Return to whom an agent is opened."""
    agent = find_agent(options["agent"])
    found = grants.grants_of(agent)
    told = (
        (
            each.grantee_id,
            "manage" if each.can_manage else "look",
            moment(each.created_at),
        )
        for each in found
    )
    listed = [
        {
            "type": each.grant_type,
            "grantee_id": each.grantee_id,
            "can_manage": each.can_manage,
            "created_at": each.created_at,
        }
        for each in found
    ]
    return Answer(
        document=_of(agent, "grants", listed), lines=table("user may since", told)
    )


def output(options: Options) -> Answer:
    """Return what the running program printed last; it must run on this very host."""
    agent = find_agent(options["agent"])
    running = _deployments(agent).filter(status=DeploymentStatus.RUNNING).first()
    if running is None:
        raise NotFound(
            f"{agent.name} does not run; what it printed before it ended is in "
            f"`manage.py buildqueue agent show {agent.pk} --json`"
        )
    if running.host != host.host_id():
        raise NotFound(
            f"{agent.name} runs on host {running.host or 'unknown'}, and this is "
            f"{host.host_id()}: ask there"
        )
    lines = base.runtime().logs(str(agent.pk), str(running.pk), options["lines"])
    return Answer(
        document=_of(agent, "lines", lines) | {"deployment_id": running.pk}, lines=lines
    )


def _of(agent: Agent, name: str, listed: Sequence[object]) -> dict[str, Any]:
    return {"agent_id": agent.pk, "agent_name": agent.name, name: listed}


def _deployments(agent: Agent) -> QuerySet[AgentDeployment]:
    found = AgentDeployment.objects.filter(agent=agent).select_related("build")
    hidden = (f"build__{name}" for name in rows.HIDDEN)
    return found.defer(*hidden).order_by("-created_at", "-id")


def _builds(agent: Agent) -> QuerySet[AgentBuild]:
    found = AgentBuild.objects.filter(agent=agent).defer(*rows.HIDDEN)
    return found.order_by("-created_at", "-id")
