"""What is wanted, what is there, and what makes the one the other?

Launching, noticing an exit, restarting, ending. An intention is durable before it is
acted on, so whatever the daemon was doing when it died, the next one finishes it
(`recovery`). Per workload one thing happens at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Coroutine, Iterator
from dataclasses import replace

from buildqueue.backends.localruntime import cgroups, instances
from buildqueue.backends.localruntime.addresses import Addresses
from buildqueue.backends.localruntime.folders import Folders
from buildqueue.backends.localruntime.identity import (
    ProcessIdentity,
    entry_of,
    kill_session,
)
from buildqueue.backends.localruntime.keeper import Exit, read_exit
from buildqueue.backends.localruntime.plans import Plans
from buildqueue.backends.localruntime.ports import Ports
from buildqueue.backends.localruntime.restarts import Restarts
from buildqueue.backends.localruntime.sealing import Sealer
from buildqueue.backends.localruntime.settings import Timing
from buildqueue.backends.localruntime.state import (
    Instance,
    Replica,
    ReplicaKey,
    Store,
)
from buildqueue.exceptions import Unavailable

logger = logging.getLogger(__name__)


class Upkeep:
    """Keeps the processes of all workloads as the store wants them."""

    def __init__(
        self,
        *,
        store: Store,
        sealer: Sealer,
        plans: Plans,
        ports: Ports,
        folders: Folders,
        timing: Timing,
    ) -> None:
        self.store, self.plans, self.ports, self.timing = store, plans, ports, timing
        self.sealer, self.folders = sealer, folders
        self.addresses = Addresses(store)
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.restarts = Restarts(timing, self._restart)
        self._tasks: set[asyncio.Task[None]] = set()

    def lock(self, workload_id: str) -> asyncio.Lock:
        """Return the lock under which the workload is changed."""
        return self._locks[workload_id]

    async def launch(self, key: ReplicaKey, instance: Instance) -> Instance:
        """Launch one replica of the instance; the caller holds the workload's lock.

        On a new port. Dies before the first write: nothing is there. Dies after it: the
        keeper is known, and ends by itself unless it was told what to launch.
        """
        env = self.sealer.open(instance.sealed_env)
        port = self.ports.free(self.store.ports())
        plan = await asyncio.to_thread(
            self.plans.plan, key, instance, env=env, port=port
        )
        folder = self.folders.of(key)
        waiting = instances.spawn_keeper(folder)
        before = instance.replica(key.number) or Replica(number=key.number)
        started = replace(
            before,
            port=port,
            state="starting",
            keeper=waiting.identity,
            child=None,
            exit_code=None,
            exit_reason=None,
        )
        # Another replica may have ended while this one was planned.
        current = self.instance(key.workload_id, key.instance_id)
        if current is not None and current.replicas and instance.replicas:
            instance = current
        try:
            self.put(key.workload_id, instance.with_replica(started))
        except Unavailable:
            waiting.dismiss()
            raise
        self.watch(key.workload_id, key.instance_id, waiting.identity)
        order = instances.Order(
            plan=plan,
            folder=folder,
            grace=self.timing.grace,
            groups=self.plans.groups_of(key, instance.resources),
            secrets=list(env.values()),
        )
        child = await waiting.launch(order)
        return self._launched(key, waiting.identity, child)

    def _launched(
        self, key: ReplicaKey, keeper: ProcessIdentity, child: ProcessIdentity
    ) -> Instance:
        instance = self.instance(key.workload_id, key.instance_id)
        assert instance is not None  # none is forgotten but under the lock
        replica = instance.replica(key.number)
        if replica is None or replica.keeper != keeper:
            return instance  # so short-lived that it is settled already
        running = replace(replica, state="running", child=child)
        return self.put(key.workload_id, instance.with_replica(running))

    async def end(self, workload_id: str, instance_id: str) -> None:
        """End the instance and remove what it wrote; absent and ended are fine.

        The caller holds the lock. The intention is written first: a daemon that dies here
        is followed by one that ends the instance too.
        """
        instance = self.instance(workload_id, instance_id)
        if instance is None:
            return
        if instance.running or instance.state != "exited":
            instance = replace(instance, stopped=True, sealed_env="")
            self.put(workload_id, instance)
        self.restarts.forget(workload_id, instance_id)
        ending = (
            self._end_replica(ReplicaKey(workload_id, instance_id, replica.number))
            for replica in instance.replicas
        )
        await asyncio.gather(*ending)
        await asyncio.to_thread(self.plans.storage.forget, workload_id, instance_id)

    async def _end_replica(self, key: ReplicaKey) -> None:
        instance = self.instance(key.workload_id, key.instance_id)
        replica = instance.replica(key.number) if instance else None
        if replica is not None and replica.keeper is not None:
            await instances.end(replica.keeper, replica.child, self.timing.grace)
            await self.settle(key.workload_id, key.instance_id, replica.keeper)

    async def retire(self, workload_id: str, instance_id: str) -> None:
        """Let requests in flight finish, end it, and forget all but its log."""
        instance = self.instance(workload_id, instance_id)
        numbers = [one.number for one in instance.replicas] if instance else []
        keys = [ReplicaKey(workload_id, instance_id, number) for number in numbers]
        await self.addresses.drained(keys, self.timing.drain)
        await self.end(workload_id, instance_id)
        workload = self.store.get(workload_id)
        if workload is not None:
            self.store.put(workload.without(instance_id))

    async def shrink(self, workload_id: str, instance_id: str) -> None:
        """Drain, end and forget the replicas that are too many; none is fine.

        That they are is written already, so they get no new request.
        """
        instance = self.instance(workload_id, instance_id)
        surplus = instance.surplus if instance else []
        keys = [ReplicaKey(workload_id, instance_id, one.number) for one in surplus]
        await self.addresses.drained(keys, self.timing.drain)
        await asyncio.gather(*(self._end_replica(key) for key in keys))
        for key in keys:
            self.restarts.forget_replica(key)
            await asyncio.to_thread(self.plans.storage.forget_replica, key)
            instance = self.instance(workload_id, instance_id)
            if instance is not None:
                self.put(workload_id, instance.without_replica(key.number))

    async def erase(self, workload_id: str) -> None:
        """Finish the deletion of a workload whose tombstone is written. Idempotent."""
        workload = self.store.get(workload_id)
        assert workload is not None
        for instance_id in workload.instances:
            await self.end(workload_id, instance_id)
        await self.addresses.close(workload_id)
        await asyncio.to_thread(self.plans.confinement.end_strays, workload_id)
        await asyncio.to_thread(self.plans.storage.forget_workload, workload_id)
        await asyncio.to_thread(self.folders.remove, workload_id)
        self.store.put(replace(workload, port=None, instances={}))

    def watch(
        self, workload_id: str, instance_id: str, keeper: ProcessIdentity
    ) -> None:
        """Have the replica's end written down, and acted on, when its keeper goes."""

        def gone() -> None:
            self.spawn(self.settle(workload_id, instance_id, keeper))

        instances.when_gone(keeper, gone)

    def ensure_active(self, workload_id: str, *, at_once: bool = False) -> None:
        """Have the active instance's replicas restarted that should run and do not."""
        workload = self.store.get(workload_id)
        instance = workload.instances.get(workload.active or "") if workload else None
        if instance is None:
            return
        for number in range(instance.wanted):
            key = ReplicaKey(workload_id, instance.instance_id, number)
            if self._missing(key):
                self.restarts.ask(key, at_once=at_once)

    def admit(self, instance: Instance) -> None:
        """Let its replicas have traffic as soon as each holds its port."""
        for replica in instance.running:
            if replica.keeper and replica.port:
                self.addresses.admission.ask(replica.keeper, replica.port)

    async def end_all(self) -> None:
        """End all instances, and restart none. What is wanted stays wanted."""
        await self.restarts.close()
        ending = (
            instances.end(replica.keeper, replica.child, self.timing.grace)
            for replica in self._running()
            if replica.keeper is not None
        )
        await asyncio.gather(*ending)

    def is_outside(self, pid: int) -> bool:
        """Tell whether the process stands outside all instances."""
        keepers = {one.keeper.pid for one in self._running() if one.keeper}
        while pid > 1:
            entry = entry_of(pid)
            if entry is None or pid in keepers:
                return False
            pid = entry.parent
        return True

    def _running(self) -> Iterator[Replica]:
        for workload in self.store.all():
            for instance in workload.instances.values():
                yield from instance.running

    async def close(self) -> None:
        """Stop looking after anything; the instances stay as they are."""
        await self.restarts.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.addresses.close_all()

    async def settle(
        self,
        workload_id: str,
        instance_id: str,
        keeper: ProcessIdentity,
        *,
        restart: bool = True,
    ) -> None:
        """Write down how a replica ended, once its keeper is gone. Idempotent."""
        found = self._kept_by(workload_id, instance_id, keeper)
        if found is None:
            return
        self.addresses.admission.drop(keeper)
        key = ReplicaKey(workload_id, instance_id, found.number)
        ended = read_exit(self.folders.of(key))
        if ended is None:
            await self._clear_up(key, found)
            if self._kept_by(workload_id, instance_id, keeper) is None:
                return
        wanted = self._is_wanted(key)
        self._write_down(key, ended or Exit(code=None), wanted=wanted)
        if wanted and restart:
            code = ended.code if ended else None
            logger.warning("%s of %s ended: %s", instance_id, workload_id, code)
            self.ensure_active(workload_id)

    def _write_down(self, key: ReplicaKey, ended: Exit, *, wanted: bool) -> None:
        instance = self.instance(key.workload_id, key.instance_id)
        assert instance is not None
        replica = instance.replica(key.number)
        assert replica is not None
        told = instance.stopped or replica.number >= instance.wanted
        changed = instance.with_replica(
            replace(
                replica,
                keeper=None,
                child=None,
                state="stopped" if told else "starting" if wanted else "exited",
                exit_code=ended.code,
                exit_reason=ended.reason,
            )
        )
        if not wanted and not told and not changed.running:
            changed = replace(changed, sealed_env="")
        self.put(key.workload_id, changed)

    async def _clear_up(self, key: ReplicaKey, replica: Replica) -> None:
        """End what a killed keeper could not end itself."""
        if replica.child is not None:
            await asyncio.to_thread(kill_session, replica.child)
        instance = self.instance(key.workload_id, key.instance_id)
        if instance is not None:
            cgroups.remove(self.plans.groups_of(key, instance.resources))
        workload = self.store.get(key.workload_id)
        others = workload.instances.values() if workload else ()
        if not any(one != replica for other in others for one in other.running):
            end_strays = self.plans.confinement.end_strays
            await asyncio.to_thread(end_strays, key.workload_id)

    def _is_wanted(self, key: ReplicaKey) -> bool:
        workload = self.store.get(key.workload_id)
        if workload is None or workload.deleted or workload.wanted != "running":
            return False
        instance = workload.instances.get(key.instance_id)
        return (
            instance is not None
            and workload.active == key.instance_id
            and not instance.stopped
            and key.number < instance.wanted
        )

    def _missing(self, key: ReplicaKey) -> Instance | None:
        """Return the instance when this replica of it should run and does not."""
        instance = self.instance(key.workload_id, key.instance_id)
        if instance is None or not self._is_wanted(key):
            return None
        replica = instance.replica(key.number)
        return instance if replica is None or replica.keeper is None else None

    async def _restart(self, key: ReplicaKey) -> None:
        async with self.lock(key.workload_id):
            instance = self._missing(key)
            if instance is None:
                return
            before = instance.replica(key.number)
            if before is not None:
                again = replace(before, restarts=before.restarts + 1)
                instance = instance.with_replica(again)
            self.admit(await self.launch(key, instance))
            self.restarts.runs(key)

    def _kept_by(
        self, workload_id: str, instance_id: str, keeper: ProcessIdentity
    ) -> Replica | None:
        instance = self.instance(workload_id, instance_id)
        every = instance.replicas if instance else ()
        return next((one for one in every if one.keeper == keeper), None)

    def instance(self, workload_id: str, instance_id: str) -> Instance | None:
        """Return the instance's record as it is now."""
        workload = self.store.get(workload_id)
        return workload.instances.get(instance_id) if workload else None

    def put(self, workload_id: str, instance: Instance) -> Instance:
        """Keep the instance's record: durable on return."""
        workload = self.store.get(workload_id)
        assert workload is not None
        self.store.put(workload.with_instance(instance))
        return instance

    def spawn(self, work: Coroutine[object, object, None]) -> None:
        """Run the work in the background; a failure is logged, the next tick repairs."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            logger.error("work in the background failed", exc_info=error)
