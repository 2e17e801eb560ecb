"""May the address lead to this instance already?

Only once the port it was given is held by its own process tree: until then another
process may listen there. One that cannot be looked into is let in when something
listens. The answer holds for one incarnation: its socket keeps others off the port.
"""

from __future__ import annotations

import asyncio

from buildqueue.backends.localruntime.identity import ProcessIdentity
from buildqueue.backends.localruntime.listening import listeners, owns

_LONGEST_PAUSE = 1.0


class Admission:
    """Remembers which incarnations were seen to hold their port."""

    def __init__(self) -> None:
        self._admitted: set[ProcessIdentity] = set()
        self._asking: dict[ProcessIdentity, asyncio.Task[None]] = {}

    def holds(self, keeper: ProcessIdentity | None) -> bool:
        """Tell whether the incarnation was admitted."""
        return keeper in self._admitted

    async def try_now(self, keeper: ProcessIdentity, port: int) -> bool:
        """Look once; admit and return True when it holds its port."""
        if await asyncio.to_thread(_holds_port, keeper, port):
            self._admitted.add(keeper)
        return self.holds(keeper)

    def ask(self, keeper: ProcessIdentity, port: int) -> None:
        """Look again and again in the background until it is admitted or dropped."""
        if not self.holds(keeper) and keeper not in self._asking:
            self._asking[keeper] = asyncio.create_task(self._wait(keeper, port))

    def drop(self, keeper: ProcessIdentity | None) -> None:
        """Forget the incarnation: it is gone."""
        if keeper is None:
            return
        self._admitted.discard(keeper)
        if task := self._asking.pop(keeper, None):
            task.cancel()

    async def close(self) -> None:
        """Stop asking."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait(self, keeper: ProcessIdentity, port: int) -> None:
        pause = 0.05
        while not await self.try_now(keeper, port):
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)


def _holds_port(keeper: ProcessIdentity, port: int) -> bool:
    if not keeper.alive():
        return False
    inodes = listeners(port)
    return bool(inodes) and owns(inodes, keeper.pid) is not False
