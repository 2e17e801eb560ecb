"""What does a worker say while its database is away, and how often does it ask again?

Every part that needs the database tells its trouble here. A connection that was cut and
can be made anew is none. Else the first trouble is printed, and the end of the last one,
and nothing between, however many parts ask again. Each waits longer from try to try, and
never as long as the others, so that a fleet of workers does not come back in one moment.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable

logger = logging.getLogger("buildqueue.worker")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0

Tell = Callable[[str | None], object]  # what is wrong; None: nothing is any more


class Outages:
    """The troubles of a process with its database; its threads share one."""

    def __init__(self, tell: Tell | None = None) -> None:
        """Print what is told, or hand it to `tell`, as a child that has a supervisor."""
        self._tell = tell or self._print
        self._lock = threading.Lock()
        self._pauses: dict[str, float] = {}  # of the parts in trouble
        self._since = 0.0
        self._told = False

    def failed(self, part: str, error: object) -> float:
        """Note that a part gets nowhere; return the seconds until it may try again."""
        with self._lock:
            if not self._pauses:
                self._since = time.monotonic()
            again = part in self._pauses
            pause = self._pauses.get(part, FIRST_PAUSE)
            self._pauses[part] = min(pause * 2, LONGEST_PAUSE)
            if again and not self._told:
                self._told = True
                self._tell(f"{part}: {first_line(error)}")
        return jittered(pause)

    def well(self, part: str) -> None:
        """Note that a part works, or has nothing to do."""
        with self._lock:
            if self._pauses.pop(part, None) is None or self._pauses:
                return
            if self._told:
                self._told = False
                self._tell(None)

    def _print(self, trouble: str | None) -> None:
        if trouble is not None:
            logger.warning("no use of the database, trying again: %s", trouble)
            return
        # As loud as the beginning: whoever saw that must see this.
        lasted = time.monotonic() - self._since
        logger.warning("the database is back after %.1f s", lasted)


def jittered(pause: float, *, rand: Callable[[], float] = random.random) -> float:
    """Return half of the pause to all of it, by chance."""
    return pause * (0.5 + rand() / 2)


def first_line(error: object) -> str:
    """Return what is wrong, without the driver's advice in the lines below."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
