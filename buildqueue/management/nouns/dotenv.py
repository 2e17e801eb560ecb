"""Which variables does a file of NAME=value lines have? Or in which line is it wrong?

Empty lines and those that begin with # say nothing; `export ` in front is passed over,
and a pair of quotes around the whole value. Nothing else in a value is interpreted. A
complaint names the line and never shows what stands there.
"""

from __future__ import annotations

import re
from pathlib import Path

from ...exceptions import BuildQueueError

MOST_BYTES = 1024 * 1024

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_QUOTES = "'\""


class BadFile(BuildQueueError):
    """The file of variables cannot be used; nothing was done."""


def read(path: str) -> dict[str, str]:
    """Return the variables of a file, by name."""
    try:
        with Path(path).open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror or error}") from None
    except (UnicodeDecodeError, ValueError):
        raise BadFile(f"{path} is no text in UTF-8") from None
    if len(raw) > MOST_BYTES:
        raise BadFile(f"{path} is larger than {MOST_BYTES} bytes: is it the right one?")
    return parse(text, path)


def parse(text: str, name: str) -> dict[str, str]:
    """Return the variables of a text; `name` is what a complaint calls it."""
    found: dict[str, str] = {}
    # Not splitlines: a value may hold what only Unicode takes for the end of a line.
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if not (parts := _LINE.fullmatch(line)):
            raise _wrong(name, number, "must be NAME=value, or begin with #")
        variable, value = parts[1], parts[2]
        if variable in found:
            raise _wrong(name, number, f"{variable} is there twice")
        if value[:1] in _QUOTES and value:
            if len(value) < 2 or value[-1] != value[0]:
                raise _wrong(name, number, "the quote at the beginning is not closed")
            value = value[1:-1]
        found[variable] = value
    return found


def _wrong(name: str, number: int, why: str) -> BadFile:
    return BadFile(f"{name}, line {number}: {why}")
