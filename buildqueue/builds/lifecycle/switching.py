"""What is written when an agent's address leads to another instance?

The version becomes the active one, the one before is archived and can be rolled back
to, the deployment is the running one, and the agent is what its owner asked for and what
its card says.
"""

from __future__ import annotations

from typing import Any

from ... import conf
from ...exceptions import ResultMissing
from ...models import Agent, AgentBuild, AgentDeployment, AgentVersion
from ...queue import database
from ...states import DeploymentStatus, VersionStatus
from .. import versions
from ..payloads import Spec
from ..results import Deployed
from .rows import deployments

# What was built before and can be deployed again.
BUILT = (VersionStatus.PUSHED, VersionStatus.ARCHIVED, VersionStatus.ACTIVE)


def switch(agent: Agent, build: AgentBuild, result: Deployed) -> AgentVersion:
    """Write all of it, and return the version that is active now."""
    version = _activate(agent, build, result)
    _replace(agent, build, result)
    _adopt(agent, build, result)
    return version


def _activate(agent: Agent, build: AgentBuild, result: Deployed) -> AgentVersion:
    rows = AgentVersion.objects.using(database.alias()).filter(agent=agent)
    version = rows.filter(version=result.version).first()
    if version is None:
        version = _unreserved(agent, result)
    elif result.built:
        if version.build_id != build.pk and version.status != VersionStatus.PUSHED:
            raise ResultMissing(f"version {result.version} belongs to another build")
        version.build_id = build.pk
    elif version.status not in BUILT:
        raise ResultMissing(f"version {result.version} was never built")
    before = rows.filter(is_active=True).exclude(pk=version.pk).first()
    if before is not None:
        rows.filter(pk=before.pk).update(
            is_active=False, status=VersionStatus.ARCHIVED, can_rollback=True
        )
        version.previous_version = before.version
    if version.build_id is None:
        version.build_id = build.pk
    version.image_tag = result.image_reference
    version.is_active, version.status = True, VersionStatus.ACTIVE
    version.can_rollback = False
    version.save(using=database.alias())
    _let_go_of_old(agent)
    return version


def _unreserved(agent: Agent, result: Deployed) -> AgentVersion:
    """Return a new version that nobody reserved: the job came from another system."""
    if not result.built:
        raise ResultMissing(f"version {result.version} is not there any more")
    if versions.numbers(result.version) is None:
        raise ResultMissing(f"{result.version!r} is no version x.y.z")
    return AgentVersion(agent=agent, version=result.version)


def _let_go_of_old(agent: Agent) -> None:
    """Keep so many versions to go back to; what older ones need may be removed."""
    rows = AgentVersion.objects.using(database.alias())
    archived = rows.filter(
        agent=agent, status=VersionStatus.ARCHIVED, can_rollback=True
    ).order_by("-created_at", "-pk")
    old = archived.values_list("pk", flat=True)[conf.get().keep_versions :]
    rows.filter(pk__in=list(old)).update(can_rollback=False)


def _replace(agent: Agent, build: AgentBuild, result: Deployed) -> None:
    """Make the new deployment the running one; the others are history."""
    others = deployments(agent.pk).exclude(pk=result.deployment_id)
    replaced = [DeploymentStatus.RUNNING, DeploymentStatus.CRASHED]
    others.filter(status__in=replaced).update(status=DeploymentStatus.STOPPED)
    others.filter(status=DeploymentStatus.STARTING).update(
        status=DeploymentStatus.FAILED, crash_reason="its attempt was cut short"
    )
    AgentDeployment.objects.using(database.alias()).update_or_create(
        pk=result.deployment_id,
        defaults={
            "agent": agent,
            "build": build,
            "owner_id": agent.owner_id,
            "status": DeploymentStatus.RUNNING,
            "service_url": result.service_url,
            "spec_image": result.image_reference,
            "spec_ports": list(result.ports),
            "runtime": result.runtime,
            "host": result.host,
        },
    )


def _adopt(agent: Agent, build: AgentBuild, result: Deployed) -> None:
    """Take over what was asked for, and what the agent says of itself."""
    values = _asked(agent, result.asked) | _said(agent, result.card)
    # What a version brought when it was built may have been changed since.
    if result.built and build.secrets_env:
        values["secrets_env"] = {**agent.secrets_env, **build.secrets_env}
    if values:
        agents = Agent.objects.using(database.alias())
        agents.filter(pk=agent.pk).update(**values)


def _asked(agent: Agent, asked: Spec) -> dict[str, Any]:
    names = ("replicas", "writable", "writable_path")
    values = {name: getattr(asked, name) for name in names}
    limits = {name: getattr(asked, name) for name in ("memory_mb", "cpus", "processes")}
    told = {name: value for name, value in limits.items() if value is not None}
    if told:
        values["resources"] = {**agent.resources, **told}
    if asked.ports is not None:
        values["ports"] = list(asked.ports)
    return {name: value for name, value in values.items() if value is not None}


def _said(agent: Agent, card: dict[str, Any]) -> dict[str, Any]:
    """Return what a card tells; one that says less changes less."""
    values = dict[str, Any]()
    if isinstance(name := card.get("name"), str):
        values["display_name"] = name
    if isinstance(description := card.get("description"), str):
        values["description"] = description
    if isinstance(skills := card.get("skills"), list):
        values["skills"] = skills
    if isinstance(capabilities := card.get("capabilities"), dict):
        values["capabilities"] = capabilities
    if card:
        kept = agent.metadata if isinstance(agent.metadata, dict) else {}
        values["metadata"] = {**kept, "card": card}
    return values
