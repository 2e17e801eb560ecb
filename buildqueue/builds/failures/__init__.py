"""What does each failure of a build mean, and what helps?

One table for every code that the build system raises: docs/reference/build-codes.md is
made of it, and a test finds every code in the source that is missing here. A hint says
what to do, never only what went wrong.

    sources    what was uploaded, packed or stored
    git        what was to be fetched from a repository
    building   from the source to an artifact
    running    from an artifact to an instance that answers
    requests   what is refused before there is a job
    engine     how any job can end, seen from a build
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from ...queue import logs
from . import building, engine, git, requests, running, sources
from .failure import Failure

__all__ = ["FAILURES", "PARTS", "Failure", "hint_of", "last_hint_of", "reason_of"]

MOST_LINES: Final = 20
MOST_CHARACTERS: Final = 4_000
LONGEST_LINE: Final = 500
AGAIN: Final = "It is tried again."  # begins the hints of what may pass
IF_IT_STAYS: Final = "If it stays:"
SHORTEST_TOLD: Final = 8  # a shorter line may stand in the words by chance

# Title -> its failures, in the order of the reference.
PARTS: Final[dict[str, dict[str, Failure]]] = {
    "Sources": sources.FAILURES,
    "Repositories": git.FAILURES,
    "Building": building.FAILURES,
    "Running": running.FAILURES,
    "Requests": requests.FAILURES,
    "Of any job": engine.FAILURES,
}
FAILURES: Final[dict[str, Failure]] = {
    code: failure for part in PARTS.values() for code, failure in part.items()
}


def hint_of(code: str) -> str | None:
    """Return what to do about a failure; None when the code is a host's own."""
    known = FAILURES.get(code)
    return known.hint if known else None


def last_hint_of(code: str) -> str | None:
    """Return the same of a build that has ended: nothing is tried again by itself."""
    hint = hint_of(code)
    if hint is None or not hint.startswith(AGAIN):
        return hint
    rest = hint.removeprefix(AGAIN).strip().removeprefix(IF_IT_STAYS).strip()
    return f"{rest[:1].upper()}{rest[1:]} Then retry the job.".strip()


def reason_of(lines: Sequence[str], error: object) -> str:
    """Return why a build failed: the error's words, and the last lines not in them.

    Made of what is masked already, and short enough for a row: 20 lines and 4 000
    characters at most, without what only a terminal understands. An error of several
    lines has told them.
    """
    words = logs.plain(str(error)).strip().split("\n")[:MOST_LINES]
    said = "\n".join(words)[:MOST_CHARACTERS]
    told, room = [said] if said else [], MOST_CHARACTERS - len(said)
    if len(words) > 1:
        return "\n".join(told)  # it tells its last lines by itself
    last: list[str] = []
    for line in islice(_newest(lines, said), MOST_LINES - said.count("\n") - 1):
        room -= len(line) + 1
        if room < 0:
            break
        last.append(line)
    return "\n".join(told + last[::-1])


def _newest(lines: Sequence[str], said: str) -> Iterator[str]:
    for line in reversed(lines):
        shown = logs.plain(line.rstrip().rpartition("\r")[2]).rstrip()
        if len(shown) > LONGEST_LINE:
            shown = shown[: LONGEST_LINE - 1] + "…"
        told = len(shown) >= SHORTEST_TOLD and shown.strip() in said
        if shown and not told:
            yield shown
