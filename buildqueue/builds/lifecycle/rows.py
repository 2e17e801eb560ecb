"""Which rows belong to a job, and how are they locked and moved?

A build is found by the job it was linked to, or by the id in the payload when another
system wrote the rows; never one of another target.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from ...models import Agent, AgentBuild, AgentDeployment, BuildJob
from ...queue import database
from ...states import (
    BUILD_FLOW,
    BUILD_KINDS,
    AgentStatus,
    BuildStatus,
    DeploymentStatus,
)
from ..hosts import PROMOTED
from ..payloads import build_id_of

BUILD_TAGS = sorted([*BUILD_KINDS, *BUILD_KINDS.values()])
# What deploys nothing, and what builds no new version.
STANDALONE = ("standalone_build", BUILD_KINDS["standalone_build"])
ROLLBACK = ("rollback", BUILD_KINDS["rollback"])


def lock_agent(agent_id: UUID) -> Agent | None:
    """Return the agent, locked until the transaction ends; deleted ones too."""
    agents = Agent.objects.using(database.alias())
    return agents.select_for_update(no_key=True).filter(pk=agent_id).first()


def lock_build(job: BuildJob, agent: Agent) -> AgentBuild | None:
    """Return the build of an agent's job, locked; None when there is none."""
    mine = Q(job_id=job.pk)
    if build_id := build_id_of(job.payload):
        mine |= Q(pk=build_id, job_id__isnull=True)
    builds = AgentBuild.objects.using(database.alias())
    locked = builds.select_for_update(no_key=True).filter(mine, agent=agent)
    return locked.order_by("-created_at").first()


def move_build(build: AgentBuild, target: BuildStatus, **values: Any) -> bool:
    """Change a build's status as BUILD_FLOW allows; false when it does not."""
    hit = (
        AgentBuild.objects.using(database.alias())
        .filter(pk=build.pk, status__in=sorted(BUILD_FLOW[target]))
        .update(status=target, **values)
    )
    return hit == 1


def deployments(agent_id: UUID) -> QuerySet[AgentDeployment]:
    """Return the queryset of an agent's deployments."""
    return AgentDeployment.objects.using(database.alias()).filter(agent_id=agent_id)


def has_open_build_job(agent_id: UUID) -> bool:
    """Tell whether a build that will be deployed is queued or under way."""
    jobs = BuildJob.objects.using(database.alias())
    mine = jobs.filter(agent_id=agent_id, kind__in=BUILD_TAGS)
    deploying = mine.exclude(kind__in=STANDALONE)
    return deploying.filter(completed_at__isnull=True).exists()


def settle(agent: Agent) -> None:
    """Write what the agent is now, read from its deployments and open jobs.

    The newest deployment that was ever promoted tells: running, stopped by its owner,
    or crashed; an agent that never ran has failed. Its version, image and address are
    those of what runs.
    """
    shown: AgentDeployment | None = (
        deployments(agent.pk)
        .filter(status__in=PROMOTED)
        .order_by("-created_at")
        .first()
    )
    values: dict[str, Any] = {"status": _status(agent, shown)}
    if shown is not None and shown.status == DeploymentStatus.RUNNING:
        values["url"] = shown.service_url
        values["image"] = shown.spec_image
        values["version"] = shown.build.version_tag
    Agent.objects.using(database.alias()).filter(pk=agent.pk).update(**values)


def _status(agent: Agent, shown: AgentDeployment | None) -> AgentStatus:
    if agent.deleted_at is None and has_open_build_job(agent.pk):
        return AgentStatus.DEPLOYING
    match shown and shown.status:
        case DeploymentStatus.RUNNING:
            return AgentStatus.RUNNING
        case DeploymentStatus.STOPPED:
            return AgentStatus.STOPPED
        case _:
            return AgentStatus.FAILED
