"""What may an executor write while its job runs? Its build's phase, source and artifact.

Every write is fenced: it hits nothing once the lease is gone, and LostLeaseError says
so. None of them locks the job's row, so renewal never waits for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db.models import Exists, QuerySet

from ...exceptions import LostLeaseError, Rejected
from ...models import (
    Agent,
    AgentBuild,
    BuildJob,
    McpConnector,
    McpConnectorBuild,
)
from ...models.expressions import ClockTimestamp
from ...queue import database
from ...queue.logs import storable
from ...states import AgentStatus, BuildStatus, ConnectorBuildStatus, ConnectorStatus
from ..payloads import StoredSource

MAX_LOG_CHARACTERS: Final = 16 * 1024
EXHAUSTED: Final = "max_attempts_exhausted"
# Of a failed build the job has ended: it is queued again before anybody may build it.
_MAY_BUILD: Final = {
    AgentBuild: (BuildStatus.QUEUED, BuildStatus.BUILDING),
    McpConnectorBuild: (ConnectorBuildStatus.PENDING, ConnectorBuildStatus.BUILDING),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """The run that writes, and what it writes about."""

    job_id: UUID
    lease_id: UUID
    build_id: UUID
    target_id: UUID
    of_connector: bool = False

    @property
    def builds(self) -> type[AgentBuild] | type[McpConnectorBuild]:
        """Return where its build stands."""
        return McpConnectorBuild if self.of_connector else AgentBuild


def enter(fence: Fence, phase: str, *, deploying: bool = True) -> None:
    """Write that the build is under way and in which phase."""
    write(fence, phase=phase, error_code=None, exit_code=None)
    if fence.of_connector:
        _enter_connector(fence)
        return
    live = Agent.objects.using(database.alias()).filter(
        pk=fence.target_id, deleted_at__isnull=True
    )
    if not live.exists():
        raise Rejected("agent_deleted", "the agent was deleted; nothing is built")
    if deploying:
        live.exclude(status=AgentStatus.DEPLOYING).update(status=AgentStatus.DEPLOYING)


def keep_source(fence: Fence, source: StoredSource, *, commit: str | None) -> None:
    """Write which source is built, so that a later attempt builds the same."""
    values = {"commit_hash": commit} if commit else {}
    write(
        fence,
        source_key=source.key,
        source_sha256=source.sha256,
        source_size=source.size,
        **values,
    )


def keep_artifact(fence: Fence, reference: str, *, host: str) -> None:
    """Write what was built, and on which host."""
    name = "image_tag" if fence.of_connector else "image_reference"
    write(fence, host=host, **{name: reference})


def tell_failure(
    fence: Fence, *, code: str, exit_code: int | None, lines: Sequence[str]
) -> None:
    """Write how the phase ended; of no effect once the lease is gone."""
    rows = _building(fence).filter(Exists(_held(fence)))
    told = storable("\n".join(lines))[-MAX_LOG_CHARACTERS:]
    rows.update(error_code=code, exit_code=exit_code, logs=told)


def code_of(job: BuildJob, build: AgentBuild | McpConnectorBuild) -> str:
    """Return why a build failed: of one that was tried too often, what failed last."""
    if job.error_code == EXHAUSTED and build.error_code:
        return build.error_code
    return job.error_code or job.status


def write(fence: Fence, **values: Any) -> None:
    """Write columns of the build, if the lease is held and the build is open."""
    held = _held(fence)
    written = (
        _building(fence)
        .filter(Exists(held))
        .update(status=BuildStatus.BUILDING, job_id=fence.job_id, **values)
    )
    if written:
        return
    if not held.exists():
        raise LostLeaseError(fence.job_id, fence.lease_id)
    raise Rejected(
        "build_missing", "the build's row is gone or has ended; ask for a new build"
    )


def _held(fence: Fence) -> QuerySet[BuildJob]:
    jobs = BuildJob.objects.using(database.alias())
    return jobs.filter(
        pk=fence.job_id, lease_id=fence.lease_id, lease_until__gt=ClockTimestamp()
    )


def _building(fence: Fence) -> QuerySet[Any]:
    builds: QuerySet[Any] = fence.builds._default_manager.using(database.alias())
    target = "connector_id" if fence.of_connector else "agent_id"
    return builds.filter(
        pk=fence.build_id,
        status__in=_MAY_BUILD[fence.builds],
        **{target: fence.target_id},
    )


def _enter_connector(fence: Fence) -> None:
    rows = McpConnector.objects.using(database.alias())
    live = rows.filter(pk=fence.target_id, deleted_at__isnull=True)
    if not live.exists():
        raise Rejected(
            "connector_deleted", "the connector was deleted; nothing is built"
        )
    # One that runs stays shown as running: it answers until the switch.
    waiting = (ConnectorStatus.PENDING, ConnectorStatus.FAILED)
    live.filter(build_status__in=waiting).update(build_status=ConnectorStatus.BUILDING)
