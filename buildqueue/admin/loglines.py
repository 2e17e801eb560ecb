"""How do chunks of output become lines?

Pure. Chunks of one stream that follow each other are joined, since a chunk may end in
the middle of a line; a line that has not ended says so, and the next one of its stream
goes on with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..models import LogChunk
from .ansi import Pen, segments


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of output."""

    attempt: int
    stream: str
    segments: list[tuple[str, str]]  # text, class names
    ended: bool  # False: the next chunk of the stream goes on with it


def lines_of(chunks: Iterable[LogChunk]) -> Iterator[Line]:
    """Return the lines of chunks, neighbors of one stream joined."""
    pen = Pen()
    for attempt, stream, text in _joined(chunks):
        pieces = text.split("\n")
        ended = pieces[-1] == ""
        if ended:
            pieces.pop()
        for number, piece in enumerate(pieces, start=1):
            yield Line(
                attempt=attempt,
                stream=stream,
                segments=segments(piece, pen),
                ended=ended or number < len(pieces),
            )


def _joined(chunks: Iterable[LogChunk]) -> Iterator[tuple[int, str, str]]:
    held: list[str] = []
    source: tuple[int, str] | None = None
    for chunk in chunks:
        if source != (chunk.attempt, chunk.stream):
            if source:
                yield (*source, "".join(held))
            held, source = [], (chunk.attempt, chunk.stream)
        held.append(chunk.text)
    if source:
        yield (*source, "".join(held))
