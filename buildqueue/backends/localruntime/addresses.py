"""Where does each workload's address lead at this moment?

To its active instance once that is admitted, else to a 503 with a reason. The answer is
read from the store for every request, so a switch is one durable write.
"""

from __future__ import annotations

import logging

from buildqueue.backends.localruntime.admission import Admission
from buildqueue.backends.localruntime.proxy import Nowhere, Proxy, Upstream
from buildqueue.backends.localruntime.state import Store, Workload
from buildqueue.backends.localruntime.traffic import Traffic

logger = logging.getLogger(__name__)


class Addresses:
    """The addresses of all workloads, and what they lead to."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._traffic = Traffic()
        self._proxy = Proxy(self.resolve, self._traffic)
        self.admission = Admission()

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
        if instance and instance.port and self.admission.holds(instance.keeper):
            return Upstream(instance_id=instance.instance_id, port=instance.port)
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

    async def drained(self, workload_id: str, instance_id: str, timeout: float) -> bool:
        """Wait until the instance has no request in flight; False: time ran out."""
        return await self._traffic.drained((workload_id, instance_id), timeout)

    async def close(self, workload_id: str) -> None:
        """Stop listening; closed is fine."""
        await self._proxy.close(workload_id)

    async def close_all(self) -> None:
        """Close every address."""
        await self.admission.close()
        await self._proxy.close_all()
