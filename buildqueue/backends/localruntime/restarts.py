"""When does a promoted instance that died start again?

After a pause that doubles with each death in a row, and is short again once it has run
steadily. One restart a workload is under way at any time; nothing here needs to survive
the daemon, since the next one restarts at once what is missing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable

from buildqueue.backends.localruntime.settings import Timing
from buildqueue.exceptions import BackendError

logger = logging.getLogger(__name__)


class Restarts:
    """Runs `restart(workload_id)` after the right pause."""

    def __init__(
        self, timing: Timing, restart: Callable[[str], Awaitable[None]]
    ) -> None:
        self._timing, self._restart = timing, restart
        self._failures: defaultdict[str, int] = defaultdict(int)
        self._active_since: dict[str, float] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._closed = False

    def active(self, workload_id: str, *, fresh: bool) -> None:
        """Take note that the active instance runs; a fresh one has failed never yet."""
        self._active_since[workload_id] = asyncio.get_running_loop().time()
        if fresh:
            self._failures[workload_id] = 0

    def ask(self, workload_id: str, *, at_once: bool = False) -> None:
        """Have it restarted, unless that is under way or the end has come."""
        running = self._tasks.get(workload_id)
        if self._closed or (running is not None and not running.done()):
            return
        pause = 0.0 if at_once else self._pause(workload_id)
        self._tasks[workload_id] = asyncio.create_task(self._later(workload_id, pause))

    async def close(self) -> None:
        """Restart nothing any more."""
        self._closed = True
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _pause(self, workload_id: str) -> float:
        since = self._active_since.pop(workload_id, None)
        now = asyncio.get_running_loop().time()
        if since is not None and now - since >= self._timing.steady:
            self._failures[workload_id] = 0
        pause = self._timing.backoff(self._failures[workload_id])
        self._failures[workload_id] += 1
        return pause

    async def _later(self, workload_id: str, pause: float) -> None:
        await asyncio.sleep(pause)
        try:
            await self._restart(workload_id)
        except BackendError as error:
            # The next tick asks again, and the pause is longer then.
            logger.error("%s cannot be restarted: %s", workload_id, error)
