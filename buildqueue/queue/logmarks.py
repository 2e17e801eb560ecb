"""How does whoever cuts a run's output know which step printed what?

At the beginning of a step the engine writes a mark into both streams of the slot's
process, which is cut out again before the text is stored. It is a control sequence that
holds the run's lease, which no program that a handler starts is told; one write that the
kernel never splits, so that it stands at one place of a stream whoever else writes there.
A mark that names another lease is text. A handler that forges its own can mislabel its
own output, and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import Final
from urllib.parse import quote, unquote
from uuid import UUID

from . import logs

STREAMS: Final = (1, 2)  # the descriptors of a slot's output
BEGINNING: Final = "\x1b]buildqueue-step;"
END: Final = "\x07"
LONGEST_NAME: Final = 200  # characters, each up to four bytes of three characters
LONGEST_MARK: Final = len(BEGINNING) + 33 + LONGEST_NAME * 12 + len(END)

_MARK: Final = re.compile(
    re.escape(BEGINNING) + r"([0-9a-f]{32});([!-~]{1,2400})" + END, re.ASCII
)


def mark(lease: UUID, step: str) -> str:
    """Return what tells that a step of this run begins: less than a pipe's atom."""
    return f"{BEGINNING}{lease.hex};{quote(step, safe='')}{END}"


def write(lease: UUID, step: str) -> None:
    """Mark the beginning of a step in the output of this process, a slot.

    A stream that the handler has closed gets none: its text keeps the last label.
    """
    written = mark(lease, step).encode("ascii")
    for stream, number in zip((sys.stdout, sys.stderr), STREAMS, strict=True):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()  # what was printed before stands before it
        with contextlib.suppress(OSError):
            os.write(number, written)


def split(text: str, lease: UUID) -> tuple[str, str, str] | None:
    """Return what stands before the first mark of this run, its step, and the rest."""
    if BEGINNING not in text:
        return None
    for found in _MARK.finditer(text):
        if found[1] == lease.hex:
            step = logs.storable(unquote(found[2]))[:LONGEST_NAME]
            return text[: found.start()], step, text[found.end() :]
    return None


def whole(text: str) -> int:
    """Return how much of a text cannot be the beginning of a mark whose end is to come."""
    at = text.rfind(BEGINNING[0], max(0, len(text) - LONGEST_MARK))
    if at < 0:
        return len(text)
    rest = text[at:]
    begun = BEGINNING.startswith(rest) or rest.startswith(BEGINNING)
    return at if begun and END not in rest else len(text)
