"""What can be asked of the runtime? One method a verb, each safe to repeat.

A verb takes the workload's lock, writes what shall be true, then makes it true. If the
daemon dies between, the next daemon does the rest; the caller, who got no answer,
repeats.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace

from buildqueue.backends.base import InstanceStatus, WorkloadSpec, WorkloadStatus
from buildqueue.backends.localruntime.keeper import OUTPUT_NAME
from buildqueue.backends.localruntime.logs import tail_of_all
from buildqueue.backends.localruntime.plans import checked_id
from buildqueue.backends.localruntime.state import Instance, ReplicaKey, Workload
from buildqueue.backends.localruntime.statuses import instance_status, workload_status
from buildqueue.backends.localruntime.upkeep import Upkeep
from buildqueue.exceptions import BackendError, Rejected, Unavailable


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
        async with self._upkeep.lock(spec.workload_id):
            workload = self._startable(spec.workload_id)
            await self._upkeep.addresses.open(workload)
            known = workload.instances.get(spec.instance_id)
            if known is not None and known.running:
                if self._same(known, spec):
                    return self._told(await self._complete(spec.workload_id, known))
                if known.promoted:
                    raise Rejected(
                        "instance_conflict",
                        "an instance with this id runs something else; use a new id",
                    )
            for candidate in workload.instances.values():
                if not candidate.promoted:
                    await self._upkeep.retire(spec.workload_id, candidate.instance_id)
            fresh = Instance(
                instance_id=spec.instance_id,
                reference=spec.reference,
                sealed_env=self._upkeep.sealer.seal(spec.env),
                wanted=spec.replicas,
                resources=spec.resources,
                writable=spec.writable,
                writable_path=spec.writable_path,
                confined=self._upkeep.plans.confinement.mode,
            )
            try:
                return self._told(await self._complete(spec.workload_id, fresh))
            finally:
                await self._prune(spec.workload_id)

    async def _complete(self, workload_id: str, instance: Instance) -> Instance:
        """Launch the replicas that were never launched; on failure end them all."""
        try:
            for number in range(instance.wanted):
                if instance.replica(number) is None:
                    key = ReplicaKey(workload_id, instance.instance_id, number)
                    instance = await self._upkeep.launch(key, instance)
        except BackendError:
            if instance.replicas and not instance.promoted:
                await self._upkeep.end(workload_id, instance.instance_id)
            raise
        return instance

    def _same(self, known: Instance, spec: WorkloadSpec) -> bool:
        """Tell whether the instance is what the spec asks for, but for its number.

        An environment that this daemon cannot open is taken to be the one that is given,
        since an instance id stands for one deployment, and can be opened from now on.
        """
        sealer = self._upkeep.sealer
        if not sealer.can_open(known.sealed_env):
            known = replace(known, sealed_env=sealer.seal(spec.env))
            self._upkeep.put(spec.workload_id, known)
        return (
            known.reference == spec.reference
            and sealer.open(known.sealed_env) == dict(spec.env)
            and known.resources == spec.resources
            and (known.writable, known.writable_path)
            == (spec.writable, spec.writable_path)
        )

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
            admission = self._upkeep.addresses.admission
            for replica in instance.running:
                if replica.keeper and replica.port:
                    await admission.try_now(replica.keeper, replica.port)
            self._upkeep.admit(instance)
            # It may have ended while its port was looked at.
            workload = self._known(workload_id)
            instance = _running(workload, instance_id)
            switched = workload.with_instance(replace(instance, promoted=True))
            self._store.put(replace(switched, active=instance_id, wanted="running"))
            if workload.active != instance_id:
                self._ran(workload_id, instance)
            others = [other for other in workload.instances if other != instance_id]
            for other in others:
                await self._upkeep.retire(workload_id, other)
            return self._seen(self._known(workload_id))

    async def scale(self, workload_id: str, replicas: int) -> WorkloadStatus:
        """Run so many replicas of the active instance.

        Dies after the write: the next daemon ends those that are too many and starts
        those that are missing.
        """
        async with self._upkeep.lock(workload_id):
            workload = self._known(workload_id)
            instance = workload.instances.get(workload.active or "")
            if instance is None or instance.stopped:
                raise Rejected("workload_stopped", "nothing runs; start it first")
            self._upkeep.sealer.open(instance.sealed_env)
            self._upkeep.put(workload_id, replace(instance, wanted=replicas))
            await self._upkeep.shrink(workload_id, instance.instance_id)
            instance = self._upkeep.instance(workload_id, instance.instance_id)
            assert instance is not None
            before = {replica.number for replica in instance.replicas}
            instance = await self._complete(workload_id, instance)
            self._upkeep.admit(instance)
            self._ran(workload_id, instance, but=before)
            return self._seen(self._known(workload_id))

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
        if workload is None or workload.deleted:
            return None
        return self._seen(workload)

    def workloads(self) -> list[WorkloadStatus]:
        """Tell all that is there."""
        return [self._seen(one) for one in self._store.all() if not one.deleted]

    async def logs(self, workload_id: str, instance_id: str, lines: int) -> list[str]:
        """Return the last lines of output; of a forgotten instance none."""
        checked_id("workload", workload_id)
        checked_id("instance", instance_id)
        folders = self._upkeep.folders.replicas(workload_id, instance_id)
        paths = {folder.name: folder / OUTPUT_NAME for folder in folders}
        return await asyncio.to_thread(tail_of_all, paths, lines)

    def _startable(self, workload_id: str) -> Workload:
        workload = self._store.get(workload_id)
        if workload is not None and workload.deleted:
            raise Rejected("workload_deleted", "the workload was deleted")
        if workload is None:
            port = self._upkeep.ports.free(self._store.ports())
            workload = self._store.put(Workload(workload_id=workload_id, port=port))
        return workload

    def _ran(
        self, workload_id: str, instance: Instance, but: Collection[int] = ()
    ) -> None:
        for replica in instance.replicas:
            if replica.number not in but:
                key = ReplicaKey(workload_id, instance.instance_id, replica.number)
                self._upkeep.restarts.runs(key)

    def _told(self, instance: Instance) -> InstanceStatus:
        return instance_status(instance, self._upkeep.sealer.can_open)

    def _seen(self, workload: Workload) -> WorkloadStatus:
        return workload_status(workload, self._upkeep.sealer.can_open)

    async def _prune(self, workload_id: str) -> None:
        known = frozenset(self._known(workload_id).instances)
        await asyncio.to_thread(self._upkeep.folders.prune, workload_id, known)

    def _known(self, workload_id: str) -> Workload:
        workload = self._store.get(workload_id)
        if workload is None or workload.deleted:
            code = "workload_deleted" if workload else "workload_unknown"
            raise Rejected(code, "there is no such workload; start it first")
        return workload


def _running(workload: Workload, instance_id: str) -> Instance:
    instance = workload.instances.get(instance_id)
    if instance is None:
        raise Rejected("instance_unknown", "there is no such instance; start it first")
    if instance.state != "running" and workload.active != instance_id:
        raise Rejected(
            "instance_not_running",
            f"the instance is {instance.state} (exit code {_exit_code(instance)})",
        )
    return instance


def _exit_code(instance: Instance) -> int | None:
    codes = [one.exit_code for one in instance.replicas if one.exit_code is not None]
    return codes[0] if codes else None
