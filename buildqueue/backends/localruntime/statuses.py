"""How is a workload told to those who ask? As values without processes or secrets."""

from __future__ import annotations

from collections.abc import Callable

from buildqueue.backends.base import InstanceStatus, ReplicaStatus, WorkloadStatus
from buildqueue.backends.localruntime.ports import LOOPBACK
from buildqueue.backends.localruntime.state import Instance, Replica, Workload

UNREADABLE = "environment_unreadable"


def workload_status(
    workload: Workload, can_open: Callable[[str], bool]
) -> WorkloadStatus:
    """Return the workload's status; `can_open` tells of a sealed environment."""
    port = workload.port
    active = workload.instances.get(workload.active or "")
    return WorkloadStatus(
        workload_id=workload.workload_id,
        address=f"http://{LOOPBACK}:{port}" if port else None,
        active=workload.active,
        replicas=active.wanted if active else 0,
        instances=tuple(
            instance_status(one, can_open) for one in workload.instances.values()
        ),
    )


def instance_status(
    instance: Instance, can_open: Callable[[str], bool]
) -> InstanceStatus:
    """Return the instance's status, of all its replicas taken together."""
    replicas = tuple(_replica_status(one) for one in instance.replicas)
    shown = [one for one in replicas if one.pid is not None] or replicas
    ended = [one for one in replicas if one.exit_code is not None]
    state = instance.state
    if state == "starting" and not can_open(instance.sealed_env):
        state = UNREADABLE
    return InstanceStatus(
        instance_id=instance.instance_id,
        state=state,
        pid=shown[0].pid if shown else None,
        port=shown[0].port if shown else None,
        exit_code=ended[0].exit_code if ended else None,
        exit_reason=ended[0].exit_reason if ended else None,
        restarts=sum(one.restarts for one in replicas),
        confined=instance.confined,
        replicas_running=sum(one.state == "running" for one in replicas),
        replicas=replicas,
    )


def _replica_status(replica: Replica) -> ReplicaStatus:
    return ReplicaStatus(
        number=replica.number,
        state=replica.state,
        pid=replica.child.pid if replica.child else None,
        port=replica.port,
        exit_code=replica.exit_code,
        exit_reason=replica.exit_reason,
        restarts=replica.restarts,
    )
