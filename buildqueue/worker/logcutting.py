"""How does one stream of a run become pieces of text, each printed in one step?

Pure. Bytes go in; pieces come out when lines are whole, when a step begins, when there is
too much, or when everything is asked for. Nothing is lost and nothing changes its order:
the pieces are the text that was printed, without the marks.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from ..models.logs import MAX_CHUNK_BYTES
from ..queue import logmarks

MOST_CHARACTERS: Final = MAX_CHUNK_BYTES // 4  # of up to four bytes each
MOST_MARKS: Final = (
    10_000  # a run may have: each makes a row, however little is printed
)


@dataclass(frozen=True, slots=True)
class Piece:
    """Text of one stream, at most as long as a chunk may be."""

    text: str
    step: str | None


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("replace")


@dataclass(slots=True)
class Cutter:
    """What was read of a stream and has not become a piece yet."""

    step: str | None = None
    text: str = ""
    _lease: UUID | None = None
    _marks: int = 0
    _decoder: codecs.IncrementalDecoder = field(default_factory=_decoder)

    def begin(self, lease: UUID | None) -> None:
        """Look for this run's marks from now on; None: what comes is no run's."""
        self._lease, self._marks, self.step = lease, 0, None

    def feed(self, read: bytes) -> list[Piece]:
        """Take in what was read; return the pieces that are complete with it."""
        self.text += self._decoder.decode(read)
        pieces = list(self._until_marks())
        if len(self.text) >= MOST_CHARACTERS:
            pieces += self.lines()
        if len(self.text) >= MOST_CHARACTERS:  # one line, and no end of it
            pieces += self._take(logmarks.whole(self.text))
        return pieces

    def lines(self) -> list[Piece]:
        """Return the whole lines."""
        return self._take(self.text.rfind("\n") + 1)

    def everything(self) -> list[Piece]:
        """Return all there is, also a line that has not ended."""
        return self._take(len(self.text))

    def _until_marks(self) -> Iterator[Piece]:
        while self._lease and self._marks < MOST_MARKS:
            found = logmarks.split(self.text, self._lease)
            if found is None:
                return
            self.text, step, rest = found
            yield from self.everything()
            self.step, self.text = step, rest
            self._marks += 1

    def _take(self, end: int) -> list[Piece]:
        text, self.text = self.text[:end], self.text[end:]
        return [
            Piece(text[at : at + MOST_CHARACTERS], self.step)
            for at in range(0, len(text), MOST_CHARACTERS)
        ]
