"""What is written of a deployment before it is the running one? That it was begun, and
why it came to nothing.

The row is there before its instance, so that no instance is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db.models.functions import Now

from ...exceptions import LostLeaseError
from ...models import AgentDeployment, BuildJob
from ...models.expressions import ClockTimestamp
from ...queue import database
from ...queue.logs import storable
from ...states import DeploymentStatus
from .progress import MAX_LOG_CHARACTERS
from .rows import deployments, lock_agent


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDeployment:
    """An instance that is about to be started, and what it is started with."""

    id: UUID
    agent_id: UUID
    build_id: UUID
    image: str
    ports: tuple[int, ...]
    replicas: int
    resources: dict[str, float]
    env_names: tuple[str, ...]
    writable: bool
    writable_path: str | None
    owner_id: str
    runtime: str
    host: str | None


def begin(job_id: UUID, lease_id: UUID, made: NewDeployment) -> None:
    """Write the deployment; those that earlier attempts began are failed with it.

    The agent is locked before the lease is looked at: a job that is just being ended
    either sees this deployment, or has ended.
    """
    with database.atomic():
        lock_agent(made.agent_id)
        held = BuildJob.objects.using(database.alias()).filter(
            pk=job_id, lease_id=lease_id, lease_until__gt=ClockTimestamp()
        )
        if not held.exists():
            raise LostLeaseError(job_id, lease_id)
        begun = deployments(made.agent_id).filter(status=DeploymentStatus.STARTING)
        begun.exclude(pk=made.id).update(
            status=DeploymentStatus.FAILED, crash_reason="its attempt was cut short"
        )
        AgentDeployment.objects.using(database.alias()).update_or_create(
            pk=made.id,
            defaults={
                "agent_id": made.agent_id,
                "build_id": made.build_id,
                "status": DeploymentStatus.STARTING,
                "owner_id": made.owner_id,
                "replicas": made.replicas,
                "spec_image": made.image,
                "spec_ports": list(made.ports),
                "spec_env": list(made.env_names),
                "spec_resources": made.resources,
                "writable": made.writable,
                "writable_path": made.writable_path,
                "runtime": made.runtime,
                "host": made.host,
            },
        )


def is_begun(agent_id: UUID, deployment_id: UUID) -> bool:
    """Tell whether the deployment still waits to be promoted."""
    begun = deployments(agent_id).filter(status=DeploymentStatus.STARTING)
    return begun.filter(pk=deployment_id).exists()


def ports_of(agent_id: UUID, reference: str) -> tuple[int, ...]:
    """Return the ports that an artifact was deployed with before; none if it was not."""
    before = deployments(agent_id).filter(spec_image=reference).order_by("-created_at")
    return tuple(before.values_list("spec_ports", flat=True).first() or ())


def give_up(agent_id: UUID, deployment_id: UUID, *, reason: str, logs: str) -> None:
    """Write why the new instance was ended again. Of no effect on a promoted one."""
    begun = deployments(agent_id).filter(status=DeploymentStatus.STARTING)
    begun.filter(pk=deployment_id).update(
        status=DeploymentStatus.FAILED,
        crash_reason=storable(reason),
        crashed_at=Now(),
        last_logs=storable(logs[-MAX_LOG_CHARACTERS:]),
    )
