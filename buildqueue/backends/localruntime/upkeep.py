"""What is wanted, what is there, and what makes the one the other?

Launching, noticing an exit, restarting, ending. An intention is durable before it is
acted on, so whatever the daemon was doing when it died, the next one finishes it
(`recovery`). Per workload one thing happens at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Coroutine
from dataclasses import replace

from buildqueue.backends.localruntime import instances
from buildqueue.backends.localruntime.addresses import Addresses
from buildqueue.backends.localruntime.folders import Folders
from buildqueue.backends.localruntime.identity import (
    ProcessIdentity,
    entry_of,
    kill_session,
)
from buildqueue.backends.localruntime.keeper import read_exit
from buildqueue.backends.localruntime.plans import Plans
from buildqueue.backends.localruntime.ports import Ports
from buildqueue.backends.localruntime.restarts import Restarts
from buildqueue.backends.localruntime.settings import Timing
from buildqueue.backends.localruntime.state import Instance, Store
from buildqueue.exceptions import Unavailable

logger = logging.getLogger(__name__)


class Upkeep:
    """Keeps the processes of all workloads as the store wants them."""

    def __init__(
        self,
        *,
        store: Store,
        plans: Plans,
        ports: Ports,
        folders: Folders,
        timing: Timing,
    ) -> None:
        self.store, self.plans, self.ports, self.timing = store, plans, ports, timing
        self.folders = folders
        self.addresses = Addresses(store)
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.restarts = Restarts(timing, self._restart)
        self._tasks: set[asyncio.Task[None]] = set()

    def lock(self, workload_id: str) -> asyncio.Lock:
        """Return the lock under which the workload is changed."""
        return self._locks[workload_id]

    async def launch(self, workload_id: str, instance: Instance) -> Instance:
        """Launch the instance on a new port; the caller holds the workload's lock.

        Dies before the first write: nothing is there. Dies after it: the keeper is
        known, and ends by itself unless it was told what to launch.
        """
        port = self.ports.free(self.store.ports())
        plan = await asyncio.to_thread(
            self.plans.plan,
            workload_id,
            instance.instance_id,
            reference=instance.reference,
            env=instance.env,
            port=port,
        )
        folder = self.folders.of(workload_id, instance.instance_id)
        waiting = instances.spawn_keeper(folder)
        started = replace(
            instance,
            port=port,
            state="starting",
            keeper=waiting.identity,
            child=None,
            exit_code=None,
            confined=self.plans.confinement.mode,
        )
        try:
            self.put(workload_id, started)
        except Unavailable:
            waiting.dismiss()
            raise
        self.watch(workload_id, started.instance_id, waiting.identity)
        child = await waiting.launch(folder, plan, self.timing.grace)
        current = self._instance(workload_id, instance.instance_id)
        if current is None or current.keeper != waiting.identity:
            return current or started  # so short-lived that it is settled already
        return self.put(workload_id, replace(current, state="running", child=child))

    async def end(self, workload_id: str, instance_id: str) -> None:
        """End the instance; absent and ended are fine. The caller holds the lock.

        The intention is written first: a daemon that dies here is followed by one that
        ends the instance too.
        """
        instance = self._instance(workload_id, instance_id)
        if instance is None:
            return
        if instance.state != "exited":
            instance = replace(instance, state="stopped", env={})
            self.put(workload_id, instance)
        if instance.keeper is not None:
            await instances.end(instance.keeper, instance.child, self.timing.grace)
            await self.settle(workload_id, instance_id, instance.keeper)

    async def retire(self, workload_id: str, instance_id: str) -> None:
        """Let requests in flight finish, end it, and forget all but its log."""
        await self.addresses.drained(workload_id, instance_id, self.timing.drain)
        await self.end(workload_id, instance_id)
        await asyncio.to_thread(self.plans.forget, workload_id, instance_id)
        workload = self.store.get(workload_id)
        if workload is not None:
            self.store.put(workload.without(instance_id))

    async def erase(self, workload_id: str) -> None:
        """Finish the deletion of a workload whose tombstone is written. Idempotent."""
        workload = self.store.get(workload_id)
        assert workload is not None
        for instance_id in workload.instances:
            await self.end(workload_id, instance_id)
        await self.addresses.close(workload_id)
        await asyncio.to_thread(self.plans.confinement.end_strays, workload_id)
        await asyncio.to_thread(self.plans.forget_workload, workload_id)
        await asyncio.to_thread(self.folders.remove, workload_id)
        self.store.put(replace(workload, port=None, instances={}))

    def watch(
        self, workload_id: str, instance_id: str, keeper: ProcessIdentity
    ) -> None:
        """Have the instance's end written down, and acted on, when its keeper goes."""

        def gone() -> None:
            self.spawn(self.settle(workload_id, instance_id, keeper))

        instances.when_gone(keeper, gone)

    def ensure_active(self, workload_id: str, *, at_once: bool = False) -> None:
        """Have the active instance restarted if it should run and does not."""
        if self._missing(workload_id):
            self.restarts.ask(workload_id, at_once=at_once)

    async def end_all(self) -> None:
        """End all instances, and restart none. What is wanted stays wanted."""
        await self.restarts.close()
        ending = [
            instances.end(instance.keeper, instance.child, self.timing.grace)
            for workload in self.store.all()
            for instance in workload.instances.values()
            if instance.keeper is not None
        ]
        await asyncio.gather(*ending)

    def is_outside(self, pid: int) -> bool:
        """Tell whether the process stands outside all instances."""
        keepers = {
            instance.keeper.pid
            for workload in self.store.all()
            for instance in workload.instances.values()
            if instance.keeper is not None
        }
        while pid > 1:
            entry = entry_of(pid)
            if entry is None or pid in keepers:
                return False
            pid = entry.parent
        return True

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
        """Write down how an instance ended, once its keeper is gone. Idempotent."""
        instance = self._instance(workload_id, instance_id)
        if instance is None or instance.keeper != keeper:
            return
        self.addresses.admission.drop(keeper)
        code = read_exit(self.folders.of(workload_id, instance_id))
        if code is None:
            await self._clear_up(workload_id, instance)
            instance = self._instance(workload_id, instance_id)
            if instance is None or instance.keeper != keeper:
                return
        wanted = self._is_wanted(workload_id, instance_id)
        ended = replace(instance, keeper=None, child=None, exit_code=code)
        if wanted:
            ended = replace(ended, state="starting")
        elif instance.state != "stopped":
            ended = replace(ended, state="exited", env={})
        self.put(workload_id, ended)
        if wanted and restart:
            logger.warning("%s of %s ended: %s", instance_id, workload_id, code)
            self.ensure_active(workload_id)

    async def _clear_up(self, workload_id: str, instance: Instance) -> None:
        """End what a killed keeper could not end itself."""
        if instance.child is not None:
            await asyncio.to_thread(kill_session, instance.child)
        workload = self.store.get(workload_id)
        others = workload.instances.values() if workload else ()
        if not any(other.keeper for other in others if other is not instance):
            end_strays = self.plans.confinement.end_strays
            await asyncio.to_thread(end_strays, workload_id)

    def _is_wanted(self, workload_id: str, instance_id: str) -> bool:
        workload = self.store.get(workload_id)
        return (
            workload is not None
            and not workload.deleted
            and workload.wanted == "running"
            and workload.active == instance_id
        )

    def _missing(self, workload_id: str) -> Instance | None:
        """Return the active instance when it should run and does not."""
        workload = self.store.get(workload_id)
        instance = workload and workload.instances.get(workload.active or "")
        if not instance or not self._is_wanted(workload_id, instance.instance_id):
            return None
        return instance if instance.keeper is None else None

    async def _restart(self, workload_id: str) -> None:
        async with self.lock(workload_id):
            instance = self._missing(workload_id)
            if instance is None:
                return
            again = replace(instance, restarts=instance.restarts + 1)
            started = await self.launch(workload_id, again)
            self.restarts.active(workload_id, fresh=False)
            if started.keeper and started.port:
                self.addresses.admission.ask(started.keeper, started.port)

    def _instance(self, workload_id: str, instance_id: str) -> Instance | None:
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
