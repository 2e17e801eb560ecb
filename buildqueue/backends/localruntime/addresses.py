"""Where does each workload's address lead at this moment?

To the replicas of its active instance that are admitted, one after the other, else to a
503 with a reason. The answer is read from the store for every request, so a switch is
one durable write, and so is taking a replica out of its turn before it is ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable

from buildqueue.backends.localruntime.admission import Admission
from buildqueue.backends.localruntime.proxy import Nowhere, Proxy, Upstream
from buildqueue.backends.localruntime.state import (
    Instance,
    ReplicaKey,
    Store,
    Workload,
)
from buildqueue.backends.localruntime.traffic import Traffic

logger = logging.getLogger(__name__)


class Addresses:
    """The addresses of all workloads, and what they lead to."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._traffic = Traffic()
        self._proxy = Proxy(self.resolve, self._traffic)
        self.admission = Admission()
        self._turns: Counter[str] = Counter()

    def resolve(self, workload_id: str) -> Upstream | Nowhere:
        """Tell where the workload's address leads."""
        workload = self._store.get(workload_id)
        if workload is None or workload.deleted or workload.wanted != "running":
            return Nowhere(
                code="workload_stopped",
                message="the workload is stopped",
                passing=False,
            )
        instance = workload.instances.get(workload.active or "")
        if instance and (upstream := self._next(workload_id, instance)):
            return upstream
        return Nowhere(
            code="workload_starting",
            message="the workload is being started",
            passing=True,
        )

    async def open(self, workload: Workload) -> bool:
        """Listen on the address; when not, log why: the next tick tries again."""
        if workload.port is None or self._proxy.is_open(workload.workload_id):
            return True
        try:
            await self._proxy.open(workload.workload_id, workload.port)
        except OSError as error:
            logger.error(
                "the address of %s (port %d) cannot be opened: %s",
                workload.workload_id,
                workload.port,
                error,
            )
            return False
        return True

    def _next(self, workload_id: str, instance: Instance) -> Upstream | None:
        serving = instance.serving
        for _ in serving:
            self._turns[workload_id] += 1
            replica = serving[self._turns[workload_id] % len(serving)]
            if replica.port and self.admission.holds(replica.keeper):
                key = ReplicaKey(workload_id, instance.instance_id, replica.number)
                return Upstream(key=key, port=replica.port)
        return None

    async def drained(self, keys: Iterable[ReplicaKey], timeout: float) -> bool:
        """Wait until no replica has a request in flight; False: time ran out."""
        waiting = (self._traffic.drained(key, timeout) for key in keys)
        return all(await asyncio.gather(*waiting))

    async def close(self, workload_id: str) -> None:
        """Stop listening; closed is fine."""
        self._turns.pop(workload_id, None)
        await self._proxy.close(workload_id)

    async def close_all(self) -> None:
        """Close every address."""
        await self.admission.close()
        await self._proxy.close_all()
