"""How many requests does an instance still answer, and when is the last one over?

A request counts from the moment its upstream is chosen, without an await between, so
after a switch no new request reaches the old instance and none is missed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class Traffic:
    """Counts the requests in flight, by whatever key they are entered under."""

    def __init__(self) -> None:
        self._flying: Counter[Hashable] = Counter()

    @contextmanager
    def flight(self, key: Hashable) -> Iterator[None]:
        """Count one request while the block runs."""
        self._flying[key] += 1
        try:
            yield
        finally:
            self._flying[key] -= 1
            if not self._flying[key]:
                del self._flying[key]

    def flying(self, key: Hashable) -> int:
        """Return how many requests are in flight."""
        return self._flying[key]

    async def drained(self, key: Hashable, timeout: float) -> bool:
        """Wait until none is in flight; False when the time ran out first."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while self._flying[key]:
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(0.02)
        return True
