"""What is written when a running instance crashes again and again, or comes back?

The runtime restarts it by itself, with growing pauses; this only tells people. Each
write is guarded by the status it follows, so a deployment that was replaced meanwhile
is left alone.
"""

from __future__ import annotations

from uuid import UUID

from django.db.models.functions import Now

from ...models import AgentDeployment
from ...queue import database
from ...queue.logs import storable
from ...states import DeploymentStatus
from .rows import deployments, has_open_build_job, lock_agent, settle


def note_restarts(deployment: AgentDeployment, restarts: int) -> None:
    """Write how often the runtime had to restart it."""
    rows = deployments(deployment.agent_id).filter(pk=deployment.pk)
    rows.exclude(restart_count=restarts).update(restart_count=restarts)


def mark_crashed(deployment: AgentDeployment, *, reason: str, logs: str) -> bool:
    """Write that a running deployment does not stay up."""
    return _move(
        deployment.agent_id,
        deployment.pk,
        DeploymentStatus.RUNNING,
        status=DeploymentStatus.CRASHED,
        crash_reason=storable(reason),
        crashed_at=Now(),
        last_logs=storable(logs),
    )


def mark_recovered(deployment: AgentDeployment) -> bool:
    """Write that a crashed deployment has stayed up again."""
    return _move(
        deployment.agent_id,
        deployment.pk,
        DeploymentStatus.CRASHED,
        status=DeploymentStatus.RUNNING,
        crash_reason=None,
    )


def _move(
    agent_id: UUID, deployment_id: UUID, before: DeploymentStatus, **values: object
) -> bool:
    with database.atomic():
        agent = lock_agent(agent_id)
        if agent is None or has_open_build_job(agent_id):
            return False
        rows = deployments(agent_id).filter(pk=deployment_id, status=before)
        moved = bool(rows.update(**values))
        if moved:
            settle(agent)
    return moved
