"""When does a replica of a promoted instance that died start again?

After a pause that doubles with each death in a row, and is short again once it has run
steadily. One restart a replica is under way at any time; nothing here needs to survive
the daemon, since the next one restarts at once what is missing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable

from buildqueue.backends.localruntime.settings import Timing
from buildqueue.backends.localruntime.state import ReplicaKey
from buildqueue.exceptions import BackendError

logger = logging.getLogger(__name__)


class Restarts:
    """Runs `restart(key)` after the right pause."""

    def __init__(
        self, timing: Timing, restart: Callable[[ReplicaKey], Awaitable[None]]
    ) -> None:
        self._timing, self._restart = timing, restart
        self._failures: defaultdict[ReplicaKey, int] = defaultdict(int)
        self._runs_since: dict[ReplicaKey, float] = {}
        self._tasks: dict[ReplicaKey, asyncio.Task[None]] = {}
        self._closed = False

    def runs(self, key: ReplicaKey) -> None:
        """Take note that the replica runs from now on."""
        self._runs_since[key] = asyncio.get_running_loop().time()

    def ask(self, key: ReplicaKey, *, at_once: bool = False) -> None:
        """Have it restarted, unless that is under way or the end has come."""
        running = self._tasks.get(key)
        if self._closed or (running is not None and not running.done()):
            return
        pause = 0.0 if at_once else self._pause(key)
        self._tasks[key] = asyncio.create_task(self._later(key, pause))

    def forget(self, workload_id: str, instance_id: str) -> None:
        """Restart no replica of this instance any more, and forget its failures."""
        known = {*self._failures, *self._runs_since, *self._tasks}
        for key in known:
            if key[:2] == (workload_id, instance_id):
                self.forget_replica(key)

    def forget_replica(self, key: ReplicaKey) -> None:
        """Forget one replica, which is not wanted any more."""
        self._failures.pop(key, None)
        self._runs_since.pop(key, None)
        if task := self._tasks.pop(key, None):
            task.cancel()

    async def close(self) -> None:
        """Restart nothing any more."""
        self._closed = True
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _pause(self, key: ReplicaKey) -> float:
        since = self._runs_since.pop(key, None)
        now = asyncio.get_running_loop().time()
        if since is not None and now - since >= self._timing.steady:
            self._failures[key] = 0
        pause = self._timing.backoff(self._failures[key])
        self._failures[key] += 1
        return pause

    async def _later(self, key: ReplicaKey, pause: float) -> None:
        await asyncio.sleep(pause)
        try:
            await self._restart(key)
        except BackendError as error:
            # The next tick asks again, and the pause is longer then.
            logger.error("%s cannot be restarted: %s", key.workload_id, error)
