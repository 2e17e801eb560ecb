"""How is a job's log printed, once or until it is complete?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count, groupby

from ..models import BuildJob
from ..queue import logs
from ..queue.logs import Position
from .finding import NotFound

FOLLOW_SECONDS = 0.3
LOOKS = 4  # for chunks, until it is asked again whether there will be more


def lines(job: BuildJob, since: str, follow: bool) -> Iterator[str]:
    """Yield the lines of a job's log; when following, until it is complete."""
    try:
        position = Position.parse(since)
    except ValueError:
        raise NotFound(f"{since!r} is no position: give attempt.seq") from None
    rest = ""
    for look in count():
        # Asked first, then all is read; a look for chunks alone costs least.
        last = not follow or (look % LOOKS == 0 and logs.complete(job.pk))
        while chunks := logs.read(job.pk, position):
            for attempt, some in groupby(chunks, lambda chunk: chunk.attempt):
                if attempt > max(position.attempt, 1):
                    yield from _ended(rest)
                    rest = ""
                    yield f"--- attempt {attempt} ---"
                position = Position(attempt)
                *whole, rest = (rest + "".join(c.text for c in some)).split("\n")
                yield from map(logs.for_terminal, whole)
            position = logs.position_of(chunks[-1])
        if last:
            break
        time.sleep(FOLLOW_SECONDS)
    yield from _ended(rest)


def _ended(rest: str) -> Iterator[str]:
    """Yield what was printed without the end of its line."""
    if rest:
        yield logs.for_terminal(rest)
