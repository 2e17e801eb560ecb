"""Which agents does the database know, and what of them should run on a host?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from ..models import Agent, AgentDeployment, BuildJob
from ..queue import database
from ..states import DeploymentStatus

# A crashed one is still wanted: the runtime goes on restarting it.
WANTED = (DeploymentStatus.RUNNING, DeploymentStatus.CRASHED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A live agent, seen from one host."""

    busy: bool  # a job of it is open
    deployment: AgentDeployment | None  # what should run on the host


def of_agents(agent_ids: Sequence[UUID], *, host: str) -> dict[UUID, Known]:
    """Return the live ones among the agents; a missing key is a deleted agent.

    Open jobs are read before the deployments: a job that ends in between is seen as
    open, or its deployment is seen as running.
    """
    alias = database.alias()
    jobs = BuildJob.objects.using(alias).filter(
        agent_id__in=agent_ids, completed_at__isnull=True
    )
    busy = set(jobs.values_list("agent_id", flat=True))
    wanted = AgentDeployment.objects.using(alias).filter(
        agent_id__in=agent_ids, status__in=WANTED, host=host
    )
    here = {row.agent_id: row for row in wanted.order_by("created_at")}
    live = Agent.objects.using(alias).live().filter(pk__in=agent_ids)
    return {
        agent_id: Known(busy=agent_id in busy, deployment=here.get(agent_id))
        for agent_id in live.values_list("pk", flat=True)
    }


def on_host(host: str) -> list[AgentDeployment]:
    """Return the deployments of live agents that should run on the host."""
    rows = AgentDeployment.objects.using(database.alias())
    return list(rows.filter(host=host, status__in=WANTED, agent__deleted_at=None))
