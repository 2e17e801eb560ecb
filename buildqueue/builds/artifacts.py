"""Which artifacts may still be deployed? All others can be removed from a host.

Needed is what a live target runs or is about to run, and every version that is active,
waits to be deployed, or can be gone back to. While a job of a target is open nothing of
it is removed: what it builds may stand in no row yet.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from django.db.models import Q

from ..models import Agent, AgentDeployment, AgentVersion, BuildJob, McpConnector
from ..queue import database
from ..states import VersionStatus
from .hosts import ALIVE

READY = (VersionStatus.ACTIVE, VersionStatus.PUSHED)


def needed(targets: Collection[UUID]) -> set[str]:
    """Return the references that the targets need; none of a deleted one."""
    alias = database.alias()
    versions = AgentVersion.objects.using(alias).filter(
        Q(status__in=READY) | Q(can_rollback=True),
        agent__in=targets,
        agent__deleted_at=None,
    )
    deployments = AgentDeployment.objects.using(alias).filter(
        agent__in=targets, agent__deleted_at=None, status__in=ALIVE
    )
    connectors = McpConnector.objects.using(alias).filter(
        pk__in=targets, deleted_at=None
    )
    found = {
        *versions.values_list("image_tag", flat=True),
        *deployments.values_list("spec_image", flat=True),
        *connectors.values_list("container_image_tag", flat=True),
    }
    return {reference for reference in found if reference}


def busy(targets: Collection[UUID]) -> set[UUID]:
    """Return the targets for which a job is open."""
    jobs = BuildJob.objects.using(database.alias()).filter(completed_at__isnull=True)
    of_agents = jobs.filter(agent_id__in=targets).values_list("agent_id", flat=True)
    of_connectors = jobs.filter(connector_id__in=targets)
    named = of_connectors.values_list("connector_id", flat=True)
    return {each for each in (*of_agents, *named) if each}


def of_agent(agent_id: UUID) -> list[str]:
    """Return the references of everything that was ever built for the agent."""
    alias = database.alias()
    agent = Agent(pk=agent_id)
    deployed = AgentDeployment.objects.using(alias).filter(agent=agent)
    versions = AgentVersion.objects.using(alias).filter(agent=agent)
    found = {
        *deployed.values_list("spec_image", flat=True),
        *versions.values_list("image_tag", flat=True),
    }
    return sorted(reference for reference in found if reference)
