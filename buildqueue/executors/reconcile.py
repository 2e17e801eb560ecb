"""Does this host run what the database says, and nothing else?

Asked by the worker's duties at each maintenance. The runtime is read first and the
database after it: what is seen there and belongs to no open job and no running
deployment then is an orphan, of a deleted agent, a killed attempt or a move to another
host. Only what was seen is ended, so a deployment that begins meanwhile is safe. Every
action may be repeated; dying half-way leaves the rest for the next time.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from ..builds import deployed, environment
from ..builds.connectors import deployed as connectors_deployed
from ..builds.connectors.deployed import KnownConnector
from ..builds.deployed import Known
from ..builds.lifecycle import crashes
from ..exceptions import BackendError, Rejected, Unavailable
from ..models import AgentDeployment
from ..queue import leases
from ..states import DeploymentStatus
from . import base, host, reconcile_connectors, seeing
from .counting import CRASHES_TO_TELL, LOG_LINES, RESTORE_SECONDS, RESTORE_TRIES, Counts

if TYPE_CHECKING:
    from ..backends.base import (
        InstanceStatus,
        Runtime,
        WorkloadSpec,
        WorkloadStatus,
    )

logger = logging.getLogger(__name__)

WORK_FOLDER_SECONDS = 600.0


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
    known, present = _known(_ids(seen)), set(_ids(seen))
    counts.crashed += _tell_lost(present)
    counts.crashed += reconcile_connectors.tell_lost(present)
    for workload in seen:
        target_id = _uuid(workload.workload_id)
        if target_id is None:
            continue  # not ours: agents and connectors are named by their id
        try:
            _settle(runtime, workload, known.get(target_id), counts)
        except BackendError as error:
            counts.failed.append(workload.workload_id)
            logger.warning(
                "workload not reconciled",
                extra={"workload": workload.workload_id, "reason": str(error)},
            )
    return counts


def _known(ids: Sequence[UUID]) -> dict[UUID, Known | KnownConnector]:
    """Return the live agents and connectors among the workloads."""
    here = host.host_id()
    return {
        **deployed.of_agents(ids, host=here),
        **connectors_deployed.of_connectors(ids, host=here),
    }


def _settle(
    runtime: Runtime,
    workload: WorkloadStatus,
    known: Known | KnownConnector | None,
    counts: Counts,
) -> None:
    match known:
        case None:
            runtime.delete(workload.workload_id)
            counts.deleted += 1
        case KnownConnector():
            reconcile_connectors.settle(runtime, workload, known, counts)
        case Known():
            _settle_agent(runtime, workload, known, counts)


def _settle_agent(
    runtime: Runtime, workload: WorkloadStatus, known: Known, counts: Counts
) -> None:
    if known.busy:
        return
    wanted = known.deployment
    if wanted is not None and not _is_active(workload, wanted):
        if not _restored(runtime, wanted, counts):
            return  # what is there answers, which is better than nothing
        counts.restored += 1
    for instance in workload.instances:
        if wanted is None or instance.instance_id != str(wanted.pk):
            counts.ended += _end(runtime, workload.workload_id, instance)
        else:
            _tell_crashes(runtime, wanted, instance, counts)


def _tell_lost(present: Collection[UUID]) -> int:
    """Tell of deployments that should run here and that the runtime has never seen."""
    wanted = deployed.on_host(host.host_id())
    lost = [each for each in wanted if each.agent_id not in present]
    reason = "its host no longer has it: deploy its version again"
    return sum(crashes.mark_crashed(each, reason=reason, logs="") for each in lost)


def _is_active(workload: WorkloadStatus, wanted: AgentDeployment) -> bool:
    """Tell whether the address leads to the deployment, as far as the runtime can."""
    return workload.active == str(wanted.pk) and not seeing.is_sealed_off(workload)


def _restored(runtime: Runtime, wanted: AgentDeployment, counts: Counts) -> bool:
    try:
        return _restore(runtime, wanted)
    except Rejected as error:
        # Such as a secret that no key reads: people must see that nothing answers.
        told = crashes.mark_crashed(wanted, reason=str(error), logs="")
        counts.crashed += told
        raise


def _end(runtime: Runtime, workload_id: str, instance: InstanceStatus) -> bool:
    if instance.state not in ("starting", "running"):
        return False
    runtime.stop_instance(workload_id, instance.instance_id)
    return True


def _restore(runtime: Runtime, wanted: AgentDeployment) -> bool:
    """Lead the address to the deployment that the database says is running.

    Needed when an attempt died between its switch and its commit and was not repeated.
    """
    from ..backends.localruntime.health import wait_healthy

    workload, instance = str(wanted.agent_id), str(wanted.pk)
    runtime.start(_spec_of(wanted))
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


def _spec_of(deployment: AgentDeployment) -> WorkloadSpec:
    """Return what the deployment was started with, and the environment as it is now."""
    from ..backends.base import Resources, WorkloadSpec

    return WorkloadSpec(
        workload_id=str(deployment.agent_id),
        instance_id=str(deployment.pk),
        reference=deployment.spec_image or "",
        env=environment.environment_of(deployment.agent, {}),
        replicas=deployment.replicas,
        resources=Resources(**deployment.spec_resources),
        writable=deployment.writable,
        writable_path=deployment.writable_path,
    )


def _tell_crashes(
    runtime: Runtime,
    deployment: AgentDeployment,
    instance: InstanceStatus,
    counts: Counts,
) -> None:
    grew = instance.restarts > deployment.restart_count
    if instance.restarts != deployment.restart_count:
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
