"""How is a run's output written and read again?

Written by the worker that saw it, in chunks that number from 1 within the run; writing
the same chunk again changes nothing, so a writer that lost its connection may repeat.
Read in the order (attempt, seq); a reader that remembers the last position it saw gets
what came after, once each, and asks `complete` first to know when it has them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Self
from uuid import UUID

from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from ..models import BuildJob, JobRun, LogChunk
from . import database

# Workers store what a run printed a few times a second, also after its job has ended.
SETTLES_SECONDS: Final = 2


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a job's log, written `attempt.seq`; `0.0` is before everything."""

    attempt: int = 0
    seq: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the position a reader names; ValueError when it is none."""
        attempt, _, seq = text.partition(".")
        made = cls(int(attempt), int(seq or 0))
        if not (0 <= made.attempt < 2**31 and 0 <= made.seq < 2**31):
            raise ValueError(text)
        return made

    def __str__(self) -> str:
        return f"{self.attempt}.{self.seq}"


def position_of(chunk: LogChunk) -> Position:
    """Return the place of a chunk."""
    return Position(chunk.attempt, chunk.seq)


def read(job_id: UUID, since: Position, *, limit: int = 200) -> list[LogChunk]:
    """Return the chunks after a position, oldest first."""
    after = Q(attempt__gt=since.attempt) | Q(attempt=since.attempt, seq__gt=since.seq)
    chunks = LogChunk.objects.using(database.alias()).filter(after, job_id=job_id)
    return list(chunks.order_by("attempt", "seq")[:limit])


def tail(job_id: UUID, *, limit: int = 200) -> list[LogChunk]:
    """Return the last chunks, oldest first."""
    chunks = LogChunk.objects.using(database.alias()).filter(job_id=job_id)
    return list(chunks.order_by("-attempt", "-seq")[:limit])[::-1]


def complete(job_id: UUID) -> bool:
    """Tell whether what is read after this call is all that the log will ever have.

    The job has ended, or is gone, no process can print for it any more, and its worker
    has had the time to store what it printed last.
    """
    using = database.alias()
    alive = Q(expires_at__isnull=True) | Q(expires_at__gt=Now())
    open_runs = JobRun.objects.using(using).filter(
        alive, job_id=OuterRef("pk"), ended_at__isnull=True
    )
    before = Now() - timedelta(seconds=SETTLES_SECONDS)
    still_open = Q(completed_at__isnull=True) | Q(completed_at__gt=before)
    growing = BuildJob.objects.using(using).filter(
        still_open | Exists(open_runs), pk=job_id
    )
    return not growing.exists()


def write(chunks: Iterable[LogChunk]) -> None:
    """Store chunks; one that is there already is left as it is."""
    LogChunk.objects.using(database.alias()).bulk_create(chunks, ignore_conflicts=True)


# Colors pass; what moves the cursor, sets a title or fills a clipboard does not.
_ESCAPES: Final = re.compile(
    r"(\x1b\[[0-9;]{0,64}m)"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]P_^X][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f\x80-\x9f]"
)


def for_terminal(text: str) -> str:
    """Return a job's output as it may be shown on somebody's terminal."""
    return _ESCAPES.sub(lambda found: found.group(1) or "", text)


def plain(text: str) -> str:
    """Return a job's output without what only a terminal understands."""
    return _ESCAPES.sub("", text)


def storable(text: str) -> str:
    """Return the text without what PostgreSQL cannot keep: NUL, lone surrogates."""
    clean = text.replace("\x00", "\N{SYMBOL FOR NULL}")
    return clean.encode("utf-8", "replace").decode("utf-8")


def storable_json(value: Any) -> Any:
    """Return the value with every text in it made storable; other things as they are."""
    match value:
        case str():
            return storable(value)
        case dict():
            return {
                storable(key) if isinstance(key, str) else key: storable_json(item)
                for key, item in value.items()
            }
        case list() | tuple():
            return [storable_json(item) for item in value]
        case _:
            return value
