"""How do chunks of output become lines?

Pure. Chunks of one stream and step that follow each other are joined, since a chunk may
end in the middle of a line; a line that has not ended says so, and the next one of its
stream goes on with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from ..models import LogChunk
from .ansi import Pen, segments


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of output."""

    attempt: int
    stream: str
    step: str | None  # which printed it
    heads: bool  # it is the engine's own, with which the step begins
    segments: list[tuple[str, str]]  # text, class names
    ended: bool  # False: the next chunk of the stream goes on with it


def lines_of(chunks: Iterable[LogChunk]) -> Iterator[Line]:
    """Return the lines of chunks, neighbors of one stream and step joined."""
    pen = Pen()
    for (attempt, stream, step), some in groupby(chunks, key=_source):
        pieces = "".join(chunk.text for chunk in some).split("\n")
        ended = pieces[-1] == ""
        if ended:
            pieces.pop()
        for number, piece in enumerate(pieces, start=1):
            yield Line(
                attempt=attempt,
                stream=stream,
                step=step,
                heads=number == 1 and piece == f"==> {step}",
                segments=segments(piece, pen),
                ended=ended or number < len(pieces),
            )


def _source(chunk: LogChunk) -> tuple[int, str, str | None]:
    return chunk.attempt, chunk.stream, chunk.step
