"""What may an executor write while its job runs? Its build's phase, its new deployment.

Every write is fenced: it hits nothing once the lease is gone, and LostLeaseError says
so. None of them locks the job's row, so renewal never waits for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Exists
from django.db.models.functions import Now

from ...exceptions import LostLeaseError, Rejected
from ...models import Agent, AgentBuild, AgentDeployment, BuildJob
from ...models.expressions import ClockTimestamp
from ...queue import database
from ...queue.logs import storable
from ...states import AgentStatus, BuildStatus, DeploymentStatus
from .rows import deployments

# Of a failed build the job has ended: it is queued again before anybody may build it.
_MAY_BUILD = (BuildStatus.QUEUED, BuildStatus.BUILDING)
MAX_LOG_CHARACTERS = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """The run that writes, and what it writes about."""

    job_id: UUID
    lease_id: UUID
    build_id: UUID
    agent_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDeployment:
    """An instance that is about to be started."""

    id: UUID
    image: str
    ports: tuple[int, ...]
    owner_id: str
    runtime: str
    host: str | None


def enter(fence: Fence, phase: str) -> None:
    """Write that the build is under way and in which phase."""
    _write(fence, phase=phase)
    live = Agent.objects.using(database.alias()).filter(
        pk=fence.agent_id, deleted_at__isnull=True
    )
    if not live.exists():
        raise Rejected("agent_deleted", "the agent was deleted; nothing is built")
    live.exclude(status=AgentStatus.DEPLOYING).update(status=AgentStatus.DEPLOYING)


def begin_deployment(fence: Fence, made: NewDeployment) -> None:
    """Write the deployment before its instance is started, so that none is unknown.

    Those that earlier attempts began and did not end are failed with it.
    """
    with database.atomic():
        _write(fence, image_reference=made.image)
        begun = deployments(fence.agent_id).filter(status=DeploymentStatus.STARTING)
        begun.exclude(pk=made.id).update(
            status=DeploymentStatus.FAILED, crash_reason="its attempt was cut short"
        )
        AgentDeployment.objects.using(database.alias()).update_or_create(
            pk=made.id,
            defaults={
                "agent_id": fence.agent_id,
                "build_id": fence.build_id,
                "status": DeploymentStatus.STARTING,
                "owner_id": made.owner_id,
                "spec_image": made.image,
                "spec_ports": list(made.ports),
                "runtime": made.runtime,
                "host": made.host,
            },
        )


def fail_deployment(
    fence: Fence, deployment_id: UUID, *, reason: str, logs: str
) -> None:
    """Write why the new instance was ended again. Of no effect on a promoted one."""
    begun = deployments(fence.agent_id).filter(status=DeploymentStatus.STARTING)
    begun.filter(pk=deployment_id).update(
        status=DeploymentStatus.FAILED,
        crash_reason=storable(reason),
        crashed_at=Now(),
        last_logs=storable(logs[-MAX_LOG_CHARACTERS:]),
    )


def _write(fence: Fence, **values: Any) -> None:
    jobs = BuildJob.objects.using(database.alias())
    held = jobs.filter(
        pk=fence.job_id, lease_id=fence.lease_id, lease_until__gt=ClockTimestamp()
    )
    mine = AgentBuild.objects.using(database.alias()).filter(
        pk=fence.build_id, agent_id=fence.agent_id, status__in=_MAY_BUILD
    )
    written = mine.filter(Exists(held)).update(
        status=BuildStatus.BUILDING, job_id=fence.job_id, **values
    )
    if written:
        return
    if not held.exists():
        raise LostLeaseError(fence.job_id, fence.lease_id)
    raise Rejected(
        "build_missing", "the build's row is gone or has ended; ask for a new build"
    )
