"""How do rows look, to people and to programs? Tables and facts, or one JSON document.

Neither ever has a secret: of an environment the names alone are read from a row, and an
address is told without the credentials that somebody may have put into it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ...exceptions import BuildQueueError
from ...models import BuildJob
from ..shown import moment

NOTHING = "-"
FOLLOW = "follow it with `manage.py buildqueue logs -f {job}`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a verb has to say: lines for people, and the same facts for programs."""

    document: Mapping[str, Any]
    lines: Iterable[str]
    jobs: Sequence[BuildJob] = ()  # that do what was asked for
    failure: BuildQueueError | None = None  # what the command ends with, all the same


def as_json(document: object) -> str:
    """Return one JSON document; it is plain ASCII, so no terminal obeys it."""
    return json.dumps(document, default=str, indent=2)


def fields(row: object, names: str) -> dict[str, Any]:
    """Return the named columns of a row."""
    return {name: getattr(row, name) for name in names.split()}


def plain_url(url: str | None) -> str | None:
    """Return an address without user, password, query and fragment."""
    if not url:
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", "")) if host else None


def table(head: str, rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield rows below their headings, each column as wide as it needs to be."""
    lines = [head.split(), *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        yield "  ".join(padded).rstrip()


def facts(known: Mapping[str, object]) -> Iterator[str]:
    """Yield a name and a value a line; what is not known is left out."""
    for name, value in known.items():
        if value not in (None, "", [], {}):
            first, *more = _text(value).splitlines() or [""]
            yield f"{name:<13} {first}"
            yield from (f"{'':<13} {line}" for line in more)


def commit(found: str | None) -> str:
    """Return enough of a commit's hash to tell it from others."""
    return found[:12] if found else NOTHING


def _cell(value: object) -> str:
    return " ".join(_text(value).split()) or NOTHING


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case datetime():
            return moment(value)
        case str():
            return value
        case Mapping():
            return ", ".join(f"{name} {_text(item)}" for name, item in value.items())
        case Iterable():
            return ", ".join(map(_text, value))
    return str(value)
