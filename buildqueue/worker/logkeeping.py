"""What is kept of a run's output when it is longer than a log may be?

Its head up to the limit, and a short tail; the bytes between them are counted, and the
count stands in their place. Pure: pieces go in, and those that are to be stored come out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ..models import LogChunk
from .logcutting import Piece

TAIL_BYTES: Final = 64 * 1024

Told = tuple[str, Piece]  # its stream, and what was printed there


@dataclass(slots=True)
class Keeping:
    """What one run has printed so far."""

    kept: int = 0
    dropped: int = 0
    tail: deque[Told] = field(default_factory=deque)
    tail_bytes: int = 0

    def take(self, stream: str, piece: Piece, most: int) -> bool:
        """Tell whether the piece is of the head, to be stored now; else keep it back."""
        size = _size(piece)
        # Once something is in the tail all that follows is: a small piece that still
        # fitted into the head would come before it.
        if not self.tail and self.kept + size <= most:
            self.kept += size
            return True
        self.tail.append((stream, piece))
        self.tail_bytes += size
        while self.tail_bytes > TAIL_BYTES and len(self.tail) > 1:
            _, oldest = self.tail.popleft()
            gone = _size(oldest)
            self.tail_bytes -= gone
            self.dropped += gone
        return False

    def rest(self) -> Iterator[Told]:
        """Yield what is to be stored at the run's end."""
        if self.dropped:
            told = f"… {self.dropped} bytes of output were not kept …\n"
            yield LogChunk.Stream.SYSTEM, Piece(told, None)
        yield from self.tail


def _size(piece: Piece) -> int:
    return len(piece.text.encode("utf-8", "replace"))
