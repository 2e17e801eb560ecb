"""What can be asked of the runtime? One method a verb, each safe to repeat.

A verb takes the workload's lock, writes what shall be true, then makes it true. If the
daemon dies between, the next daemon does the rest; the caller, who got no answer,
repeats.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from buildqueue.backends.base import InstanceStatus, WorkloadSpec, WorkloadStatus
from buildqueue.backends.localruntime.keeper import OUTPUT_NAME
from buildqueue.backends.localruntime.logs import tail
from buildqueue.backends.localruntime.plans import checked_id
from buildqueue.backends.localruntime.ports import LOOPBACK
from buildqueue.backends.localruntime.state import Instance, Workload
from buildqueue.backends.localruntime.upkeep import Upkeep
from buildqueue.exceptions import Rejected, Unavailable


class Verbs:
    """The runtime's verbs, as the control socket calls them."""

    def __init__(self, upkeep: Upkeep) -> None:
        self._upkeep = upkeep
        self._store = upkeep.store

    async def start(self, spec: WorkloadSpec) -> InstanceStatus:
        """Start an instance beside what runs, after ending other candidates.

        The same instance again, while it runs, is only reported. Dies half-way: the
        instance may run or not, and no address leads to it; a repeat settles it.
        """
        _check_spec(spec)
        async with self._upkeep.lock(spec.workload_id):
            workload = self._startable(spec.workload_id)
            await self._upkeep.addresses.open(workload)
            known = workload.instances.get(spec.instance_id)
            if known is not None and known.keeper is not None:
                if _same(known, spec):
                    return _instance_status(known)
                if known.promoted:
                    raise Rejected(
                        "instance_conflict",
                        "an instance with this id runs something else; use a new id",
                    )
            for candidate in workload.instances.values():
                if not candidate.promoted:
                    await self._upkeep.retire(spec.workload_id, candidate.instance_id)
            instance = Instance(
                instance_id=spec.instance_id,
                reference=spec.reference,
                env=dict(spec.env),
            )
            try:
                started = await self._upkeep.launch(spec.workload_id, instance)
            finally:
                await self._prune(spec.workload_id)
            return _instance_status(started)

    async def promote(self, workload_id: str, instance_id: str) -> WorkloadStatus:
        """Lead the address to the instance, then drain and end all others.

        Dies before the write: the old one still answers. Dies after it: the new one
        does, and the next daemon ends the old one.
        """
        async with self._upkeep.lock(workload_id):
            workload = self._known(workload_id)
            instance = _running(workload, instance_id)
            if not await self._upkeep.addresses.open(workload):
                raise Unavailable(
                    "address_taken",
                    f"port {workload.port}, the address of {workload_id} for life, is "
                    "taken by another program of this host: end that one",
                )
            if instance.keeper and instance.port:
                await self._upkeep.addresses.admission.try_now(
                    instance.keeper, instance.port
                )
                self._upkeep.addresses.admission.ask(instance.keeper, instance.port)
            # It may have ended while its port was looked at.
            workload = self._known(workload_id)
            instance = _running(workload, instance_id)
            switched = workload.with_instance(replace(instance, promoted=True))
            self._store.put(replace(switched, active=instance_id, wanted="running"))
            fresh = workload.active != instance_id
            self._upkeep.restarts.active(workload_id, fresh=fresh)
            others = [other for other in workload.instances if other != instance_id]
            for other in others:
                await self._upkeep.retire(workload_id, other)
            return _status(self._known(workload_id))

    async def stop_instance(self, workload_id: str, instance_id: str) -> None:
        """End one instance; the active one's end leaves the workload stopped."""
        async with self._upkeep.lock(workload_id):
            workload = self._store.get(workload_id)
            if workload is None or instance_id not in workload.instances:
                return
            if workload.active == instance_id:
                self._store.put(replace(workload, active=None, wanted="stopped"))
            await self._upkeep.end(workload_id, instance_id)

    async def stop(self, workload_id: str) -> None:
        """End all instances. The wish is written first; the address stays."""
        async with self._upkeep.lock(workload_id):
            workload = self._store.get(workload_id)
            if workload is None or workload.deleted:
                return
            self._store.put(replace(workload, active=None, wanted="stopped"))
            for instance_id in workload.instances:
                await self._upkeep.end(workload_id, instance_id)
            confinement = self._upkeep.plans.confinement
            await asyncio.to_thread(confinement.end_strays, workload_id)

    async def delete(self, workload_id: str) -> None:
        """Leave a tombstone, end everything, free the address. Absent is fine.

        Dies after the tombstone: no start is taken any more, and the next daemon ends
        what is left.
        """
        checked_id("workload", workload_id)
        async with self._upkeep.lock(workload_id):
            workload = self._store.get(workload_id)
            found = workload or Workload(workload_id=workload_id)
            buried = replace(found, active=None, wanted="stopped", deleted=True)
            self._store.put(buried)
            await self._upkeep.erase(workload_id)

    def status(self, workload_id: str) -> WorkloadStatus | None:
        """Tell what is there; None for an unknown and for a deleted workload."""
        workload = self._store.get(workload_id)
        return None if workload is None or workload.deleted else _status(workload)

    def workloads(self) -> list[WorkloadStatus]:
        """Tell all that is there."""
        return [_status(one) for one in self._store.all() if not one.deleted]

    async def logs(self, workload_id: str, instance_id: str, lines: int) -> list[str]:
        """Return the last lines of output; of a forgotten instance none."""
        checked_id("workload", workload_id)
        checked_id("instance", instance_id)
        path = self._upkeep.folders.of(workload_id, instance_id) / OUTPUT_NAME
        return await asyncio.to_thread(tail, path, lines)

    def _startable(self, workload_id: str) -> Workload:
        workload = self._store.get(workload_id)
        if workload is not None and workload.deleted:
            raise Rejected("workload_deleted", "the workload was deleted")
        if workload is None:
            port = self._upkeep.ports.free(self._store.ports())
            workload = self._store.put(Workload(workload_id=workload_id, port=port))
        return workload

    async def _prune(self, workload_id: str) -> None:
        known = frozenset(self._known(workload_id).instances)
        await asyncio.to_thread(self._upkeep.folders.prune, workload_id, known)

    def _known(self, workload_id: str) -> Workload:
        workload = self._store.get(workload_id)
        if workload is None or workload.deleted:
            code = "workload_deleted" if workload else "workload_unknown"
            raise Rejected(code, "there is no such workload; start it first")
        return workload


def _check_spec(spec: WorkloadSpec) -> None:
    checked_id("workload", spec.workload_id)
    checked_id("instance", spec.instance_id)
    parts: list[object] = [part for pair in spec.env.items() for part in pair]
    if not all(isinstance(part, str) for part in parts):
        raise Rejected("invalid_environment", "names and values have to be strings")


def _same(known: Instance, spec: WorkloadSpec) -> bool:
    return known.reference == spec.reference and dict(known.env) == dict(spec.env)


def _running(workload: Workload, instance_id: str) -> Instance:
    instance = workload.instances.get(instance_id)
    if instance is None:
        raise Rejected("instance_unknown", "there is no such instance; start it first")
    if instance.state != "running" and workload.active != instance_id:
        raise Rejected(
            "instance_not_running",
            f"the instance is {instance.state} (exit code {instance.exit_code})",
        )
    return instance


def _status(workload: Workload) -> WorkloadStatus:
    port = workload.port
    return WorkloadStatus(
        workload_id=workload.workload_id,
        address=f"http://{LOOPBACK}:{port}" if port else None,
        active=workload.active,
        instances=tuple(_instance_status(one) for one in workload.instances.values()),
    )


def _instance_status(instance: Instance) -> InstanceStatus:
    return InstanceStatus(
        instance_id=instance.instance_id,
        state=instance.state,
        pid=instance.child.pid if instance.child else None,
        port=instance.port,
        exit_code=instance.exit_code,
        restarts=instance.restarts,
        confined=instance.confined,
    )
