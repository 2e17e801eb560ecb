"""Which hosts have an agent's processes, and can a job still be sent there?

A runtime that is bound to its machine is reached by a worker on that machine, so jobs
for it name the host as a capability. A host from which no worker was seen for a while,
although others are at work, is gone: nothing waits for it. Should it come back, its
reconciliation ends what no longer belongs there.
"""

from __future__ import annotations

from datetime import timedelta

from django.db.models import QuerySet
from django.db.models.functions import Now

from ..models import Agent, AgentDeployment, Worker
from ..queue import database
from ..states import DeploymentStatus, WorkerStatus

PREFIX = "host:"  # of the capability that a worker has by its host
GONE_AFTER = timedelta(minutes=10)

# A deployment that was promoted once; what failed on the way says nothing of the agent.
PROMOTED = (
    DeploymentStatus.RUNNING,
    DeploymentStatus.STOPPED,
    DeploymentStatus.CRASHED,
)
# Deployments that may have a process.
ALIVE = (DeploymentStatus.STARTING, DeploymentStatus.RUNNING, DeploymentStatus.CRASHED)


def capability(host: str) -> str:
    """Return what a worker must have to reach the runtime of that host."""
    return f"{PREFIX}{host}"


def named_by(capability: str) -> str:
    """Return the host that a capability of this kind is about."""
    return capability.removeprefix(PREFIX)


def home(agent: Agent) -> str | None:
    """Return the host where the agent has its address, unless that host is gone."""
    promoted = _deployments(agent).filter(status__in=PROMOTED).order_by("-created_at")
    host = promoted.values_list("host", flat=True).first()
    return None if host is None or is_gone(host) else host


def with_processes(agent: Agent) -> list[str]:
    """Return every host that may have a process of the agent."""
    alive = _deployments(agent).filter(status__in=ALIVE).exclude(host=None)
    return sorted({host for host in alive.values_list("host", flat=True) if host})


def is_gone(host: str) -> bool:
    """Tell whether others are at work, and nobody of that host was seen for long."""
    workers = Worker.objects.using(database.alias())
    at_work = [WorkerStatus.RUNNING, WorkerStatus.DRAINING]
    recent = workers.filter(heartbeat_at__gt=Now() - GONE_AFTER)
    if recent.filter(capabilities__contains=[capability(host)]).exists():
        return False
    return recent.filter(status__in=at_work).exists()


def _deployments(agent: Agent) -> QuerySet[AgentDeployment]:
    return AgentDeployment.objects.using(database.alias()).filter(agent=agent)
