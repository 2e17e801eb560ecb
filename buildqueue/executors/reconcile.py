"""Does this host run what the database says, and nothing else?

Asked by the worker's duties at each maintenance. The runtime is read first and the
database after it: what is seen there and belongs to no open job and no running
deployment then is an orphan, of a deleted agent, a killed attempt or a move to another
host. Only what was seen is ended, so a deployment that begins meanwhile is safe. Every
action may be repeated; dying half-way leaves the rest for the next time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from ..builds import deployed, sources
from ..builds.lifecycle import crashes
from ..exceptions import BackendError, Unavailable
from ..models import AgentDeployment
from ..queue import leases
from ..states import DeploymentStatus
from . import base, host

if TYPE_CHECKING:
    from ..backends.base import InstanceStatus, Runtime, WorkloadStatus

logger = logging.getLogger(__name__)

CRASHES_TO_TELL = 5
LOG_LINES = 20
RESTORE_TRIES = 10
RESTORE_SECONDS = 1.0
WORK_FOLDER_SECONDS = 600.0
PRUNE_SECONDS = 3600.0


@dataclass(slots=True)
class Counts:
    """What one reconciliation did."""

    deleted: int = 0
    ended: int = 0
    restored: int = 0
    crashed: int = 0
    recovered: int = 0
    folders: int = 0
    failed: list[str] = field(default_factory=list)  # workloads that could not be


def reconcile_host() -> Counts:
    """Make this host run what the database says; of no effect without a runtime."""
    counts = Counts(folders=_remove_work_folders())
    if not host.in_use():
        return counts
    runtime = base.runtime()
    try:
        seen = runtime.workloads()
    except Unavailable:
        return counts
    known = deployed.of_agents(_ids(seen), host=host.host_id())
    counts.crashed += _tell_lost(_ids(seen))
    for workload in seen:
        agent_id = _uuid(workload.workload_id)
        if agent_id is None:
            continue  # not ours: agents are named by their id
        try:
            _settle(runtime, workload, known.get(agent_id), counts)
        except BackendError as error:
            counts.failed.append(workload.workload_id)
            logger.warning(
                "workload not reconciled",
                extra={"workload": workload.workload_id, "reason": str(error)},
            )
    return counts


def prune_sources() -> int:
    """Remove stored sources that no build names; looks once an hour at most."""
    if time.monotonic() < _next_prune[0]:
        return 0
    _next_prune[0] = time.monotonic() + PRUNE_SECONDS
    return sources.prune_orphans()


# A list of all stored sources costs more than a look at the runtime.
_next_prune = [0.0]


def _settle(
    runtime: Runtime,
    workload: WorkloadStatus,
    known: deployed.Known | None,
    counts: Counts,
) -> None:
    if known is None:
        runtime.delete(workload.workload_id)
        counts.deleted += 1
        return
    if known.busy:
        return
    wanted = known.deployment
    restore = wanted is not None and not _is_active(workload, wanted)
    if restore and wanted is not None and not _restore(runtime, wanted):
        return  # what is there answers, which is better than nothing
    counts.restored += restore
    for instance in workload.instances:
        if wanted is None or instance.instance_id != str(wanted.pk):
            counts.ended += _end(runtime, workload.workload_id, instance)
        else:
            _tell_crashes(runtime, wanted, instance, counts)


def _tell_lost(present: Sequence[UUID]) -> int:
    """Tell of deployments that should run here and that the runtime has never seen."""
    wanted = deployed.on_host(host.host_id())
    lost = [each for each in wanted if each.agent_id not in present]
    reason = "its host no longer has it; upload the agent again"
    return sum(crashes.mark_crashed(each, reason=reason, logs="") for each in lost)


def _is_active(workload: WorkloadStatus, wanted: AgentDeployment) -> bool:
    return workload.active == str(wanted.pk)


def _end(runtime: Runtime, workload_id: str, instance: InstanceStatus) -> bool:
    if instance.state not in ("starting", "running"):
        return False
    runtime.stop_instance(workload_id, instance.instance_id)
    return True


def _restore(runtime: Runtime, wanted: AgentDeployment) -> bool:
    """Lead the address to the deployment that the database says is running.

    Needed when an attempt died between its switch and its commit and was not repeated.
    """
    from ..backends.base import WorkloadSpec
    from ..backends.localruntime.health import wait_healthy

    workload, instance = str(wanted.agent_id), str(wanted.pk)
    runtime.start(
        WorkloadSpec(
            workload_id=workload,
            instance_id=instance,
            reference=wanted.spec_image or "",
        )
    )
    report = wait_healthy(
        runtime,
        workload,
        instance,
        tries=RESTORE_TRIES,
        interval=RESTORE_SECONDS,
        on_line=lambda line: None,
        cancelled=lambda: False,
    )
    if not report.healthy:
        runtime.stop_instance(workload, instance)
        return False
    runtime.promote(workload, instance)
    return True


def _tell_crashes(
    runtime: Runtime,
    deployment: AgentDeployment,
    instance: InstanceStatus,
    counts: Counts,
) -> None:
    grew = instance.restarts > deployment.restart_count
    crashes.note_restarts(deployment, instance.restarts)
    if deployment.status == DeploymentStatus.RUNNING:
        if instance.restarts < CRASHES_TO_TELL or not (grew or instance.pid is None):
            return
        lines = runtime.logs(str(deployment.agent_id), instance.instance_id, LOG_LINES)
        reason = f"restarted {instance.restarts} times, last exit code "
        counts.crashed += crashes.mark_crashed(
            deployment,
            reason=f"{reason}{instance.exit_code}",
            logs="\n".join(lines),
        )
    elif instance.state == "running" and not grew:
        counts.recovered += crashes.mark_recovered(deployment)


def _remove_work_folders() -> int:
    """Remove the work folders of runs whose process was killed."""
    from ..backends.trees import remove_tree

    root = base.work_root()
    folders = [
        path
        for path in root.glob("*")
        if base.is_work_folder_old(path, seconds=WORK_FOLDER_SECONDS)
    ]
    named = {path: _uuid(path.name) for path in folders}
    held = leases.held([lease for lease in named.values() if lease])
    dead = [path for path, lease in named.items() if lease and lease not in held]
    for path in dead:
        remove_tree(path)
    return len(dead)


def _ids(workloads: Iterable[WorkloadStatus]) -> list[UUID]:
    found = (_uuid(workload.workload_id) for workload in workloads)
    return [agent_id for agent_id in found if agent_id is not None]


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
