"""What does a daemon do about what an earlier one left, and about what it missed itself?

It opens the addresses, watches what still runs, writes down what died meanwhile, finishes
switches, stops, scalings and deletions cut short, and restarts what should run. After a
reboot nothing still runs, and the same steps bring it back.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from buildqueue.backends.localruntime import instances
from buildqueue.backends.localruntime.identity import ProcessIdentity
from buildqueue.backends.localruntime.state import Instance, Workload
from buildqueue.backends.localruntime.upkeep import Upkeep
from buildqueue.exceptions import BackendError

logger = logging.getLogger(__name__)


async def find_again(upkeep: Upkeep) -> None:
    """Take over once, before the first verb is answered."""
    for workload in upkeep.store.all():
        workload = _renewed(upkeep, workload)
        await upkeep.addresses.open(workload)
        for instance in workload.instances.values():
            await _take_over(upkeep, workload, instance)
        upkeep.spawn(_finish(upkeep, workload.workload_id))


def _renewed(upkeep: Upkeep, workload: Workload) -> Workload:
    """Return the workload with its environments sealed with the newest key."""
    renew = upkeep.sealer.renewed
    renewed = {
        name: replace(each, sealed_env=renew(each.sealed_env))
        for name, each in workload.instances.items()
    }
    if renewed == dict(workload.instances):
        return workload
    return upkeep.store.put(replace(workload, instances=renewed))


async def reconcile(upkeep: Upkeep) -> None:
    """Look again at what should be true; called at every tick."""
    for workload in upkeep.store.all():
        try:
            await _reconcile(upkeep, workload)
        except BackendError as error:
            # The trouble of one must not keep the others from being looked at.
            logger.error("%s cannot be put right: %s", workload.workload_id, error)


async def _reconcile(upkeep: Upkeep, workload: Workload) -> None:
    await upkeep.addresses.open(workload)
    for instance in workload.instances.values():
        for keeper in _keepers(instance):
            if not keeper.alive():
                await upkeep.settle(workload.workload_id, instance.instance_id, keeper)
    upkeep.ensure_active(workload.workload_id)


async def _take_over(upkeep: Upkeep, workload: Workload, instance: Instance) -> None:
    workload_id, instance_id = workload.workload_id, instance.instance_id
    for keeper in _keepers(instance):
        if keeper.alive():
            _know_child(upkeep, workload_id, instance_id, keeper)
            upkeep.watch(workload_id, instance_id, keeper)
        else:
            await upkeep.settle(workload_id, instance_id, keeper, restart=False)
    current = upkeep.instance(workload_id, instance_id)
    if instance_id == workload.active and current is not None:
        upkeep.admit(current)


def _know_child(
    upkeep: Upkeep, workload_id: str, instance_id: str, keeper: ProcessIdentity
) -> None:
    """Learn what was launched if the daemon died after it had told the keeper."""
    instance = upkeep.instance(workload_id, instance_id)
    for replica in instance.running if instance else ():
        if instance and replica.keeper == keeper and replica.child is None:
            child = instances.launched_by(keeper)
            known = replace(replica, child=child, state="running")
            upkeep.put(workload_id, instance.with_replica(known))


def _keepers(instance: Instance) -> list[ProcessIdentity]:
    return [one.keeper for one in instance.running if one.keeper is not None]


async def _finish(upkeep: Upkeep, workload_id: str) -> None:
    async with upkeep.lock(workload_id):
        workload = upkeep.store.get(workload_id)
        if workload is None:
            return
        if workload.deleted:
            if workload.instances or workload.port:
                await upkeep.erase(workload_id)
            return
        for instance in workload.instances.values():
            await _finish_instance(upkeep, workload, instance)
    upkeep.ensure_active(workload_id, at_once=True)


async def _finish_instance(
    upkeep: Upkeep, workload: Workload, instance: Instance
) -> None:
    workload_id, instance_id = workload.workload_id, instance.instance_id
    if instance.stopped:
        await upkeep.end(workload_id, instance_id)
    elif instance.promoted and instance_id != workload.active:
        await upkeep.retire(workload_id, instance_id)
    else:
        await upkeep.shrink(workload_id, instance_id)
