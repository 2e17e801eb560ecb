"""How do a worker's threads tell its main loop something? A queue that wakes a selector."""

from __future__ import annotations

import contextlib
import os
import queue
from typing import Any


class Inbox:
    """Messages for the main loop; `fileno` is readable while there are some."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._readable, self.wakeup = os.pipe()
        for end in (self._readable, self.wakeup):
            os.set_blocking(end, False)

    def fileno(self) -> int:
        """Return the descriptor, for a selector."""
        return self._readable

    def post(self, name: str, value: Any = None) -> None:
        """Leave a message and wake the main loop."""
        self._queue.put((name, value))
        with contextlib.suppress(BlockingIOError):  # a full pipe wakes just as well
            os.write(self.wakeup, b"\0")

    def take(self) -> list[tuple[str, Any]]:
        """Return all messages left so far."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._readable, 65536)
        found = []
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(self._queue.get_nowait())
        return found
