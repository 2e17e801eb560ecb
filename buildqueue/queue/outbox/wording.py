"""What may a person type to act on a job? The same words in mails and in a terminal. Pure.

Ids are told by their first letters, as the command takes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

PROGRAM: Final = "manage.py buildqueue"
HOW_IT_WENT: Final = "--happened|--did-not-happen"


def field_lines(fields: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield each field of an answer: what is typed, what it takes, and what it means."""
    for field in fields:
        kind = " | ".join(field.get("choices") or ()) or field["type"]
        told = "" if field["required"] else ", optional"
        words = ": ".join(filter(None, (field["label"], field.get("help", ""))))
        yield f"  {field['name']}=({kind}{told})  {words}".rstrip()


def answer(job: object, names: Iterable[str]) -> str:
    """Return the command that answers a job."""
    fields = "".join(f" {name}=…" for name in names)
    return f"{PROGRAM} answer {_short(job)}{fields}"


def approve(action: object) -> str:
    """Return the command that shows an action and asks whether it may be done."""
    return f"{PROGRAM} approve {_short(action)}"


def deny(action: object) -> str:
    """Return the command by which an action is not done."""
    return f"{PROGRAM} deny {_short(action)} --reason …"


def settle(action: object) -> str:
    """Return the command that says what became of an action of unknown outcome."""
    return f"{PROGRAM} settle {_short(action)} {HOW_IT_WENT} --reason …"


def actions(job: object) -> str:
    """Return the command that shows a job's actions with content and hash."""
    return f"{PROGRAM} actions {_short(job)}"


def show(job: object) -> str:
    """Return the command that shows a job."""
    return f"{PROGRAM} show {_short(job)}"


def _short(identifier: object) -> str:
    return str(identifier)[:8]
