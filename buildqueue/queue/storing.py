"""What may be stored as a document? JSON, of bounded depth and size, that comes back equal.

Whatever hosts and handlers give is looked at here first, so the database is never the
one to refuse it, and whoever reads the document later can. Pure: values in, a copy out;
what does not pass is NotStorable, which tells where in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from ..exceptions import NotStorable
from . import logs

DEEPEST: Final = 100  # serializers give up between 200 and 1000
# A document is read whole with its row, by every page and answer that shows it. What is
# larger belongs into a file or a table of the host's own, its name into the document.
MOST_BYTES: Final = 4 * 1024 * 1024
MOST_DIGITS: Final = 1000  # Python reads and writes 4300 at most
_BOUND: Final = 10**MOST_DIGITS
MOST_SHOWN: Final = 80

Otherwise = Callable[[object], str]


def document(
    value: Any, *, exact: bool = False, otherwise: Otherwise | None = None
) -> Any:
    """Return a copy of the value as it can be stored; NotStorable when it cannot be.

    Texts are kept as well as PostgreSQL can, and whole numbers as keys become texts;
    `exact` refuses both instead. `otherwise` makes a text of what is no JSON.
    """
    return _Copying(exact, otherwise).copy(value, "it", 0)


def mapping(value: Any, name: str) -> dict[str, Any]:
    """Return a copy of an object as it can be stored."""
    if not isinstance(value, Mapping):
        raise NotStorable(f"{name} must be an object, not {shown(value)}")
    made: dict[str, Any] = document(value)
    return made


def sequence(value: Any, name: str) -> list[Any]:
    """Return a copy of a list as it can be stored."""
    if not isinstance(value, list | tuple):
        raise NotStorable(f"{name} must be a list, not {shown(value)}")
    made: list[Any] = document(value)
    return made


def text(value: Any, name: str) -> str:
    """Return a text as well as PostgreSQL can keep it."""
    if not isinstance(value, str):
        raise NotStorable(f"{name} must be text, not {shown(value)}")
    return logs.storable(value)


def name(value: str, most: int, what: str) -> str:
    """Return a name that is kept as it is; NotStorable says what is wanted."""
    if text(value, what) != value or not 0 < len(value) <= most:
        raise NotStorable(
            f"{what} must have 1 to {most} characters, without NUL or half a surrogate "
            f"pair, not {shown(value)}"
        )
    return value


def identifier(value: object) -> UUID | None:
    """Return an id, None when the value is none: then there is no such row."""
    if isinstance(value, UUID):
        return value
    try:
        return UUID(value) if isinstance(value, str) else None
    except ValueError:
        return None


def shown(value: object) -> str:
    """Return a short text for any value at all, to be told in a refusal."""
    try:
        told = repr(value)
    except Exception:  # of whatever it is: too deep, too long, or its own
        told = f"a {type(value).__name__}"
    return told if len(told) <= MOST_SHOWN else f"{told[:MOST_SHOWN]}…"


class _Copying:
    """One copy, and what it may still take."""

    def __init__(self, exact: bool, otherwise: Otherwise | None) -> None:
        self._exact, self._otherwise, self._left = exact, otherwise, MOST_BYTES

    def copy(self, value: Any, place: str, depth: int) -> Any:
        self._take(1)
        if depth > DEEPEST:
            raise NotStorable(f"it is nested deeper than {DEEPEST} levels")
        match value:
            case None | True | False:
                return value
            case str():
                return self._text(value, place)
            case int() | float():
                return self._number(value, place)
            case Mapping():
                return self._object(value, place, depth)
            case list() | tuple():
                return [
                    self.copy(item, _inside(place, f"[{number}]"), depth + 1)
                    for number, item in enumerate(value)
                ]
        if self._otherwise is None:
            raise NotStorable(f"{place} is {shown(value)}, which is no JSON")
        return self._text(self._otherwise(value), place)

    def _object(self, value: Mapping[Any, Any], place: str, depth: int) -> Any:
        made: dict[str, Any] = {}
        for key, item in value.items():
            name = self._key(key, place)
            if name in made:
                raise NotStorable(f"{place} has the key {shown(name)} twice")
            inner = _inside(place, f".{name[:MOST_SHOWN]}")
            made[name] = self.copy(item, inner, depth + 1)
        return made

    def _key(self, key: object, place: str) -> str:
        if isinstance(key, int) and not isinstance(key, bool) and not self._exact:
            key = str(self._number(key, place))
        if not isinstance(key, str):
            raise NotStorable(f"{place} has the key {shown(key)}: keys must be text")
        return self._text(key, place)

    def _text(self, value: str, place: str) -> str:
        clean = logs.storable(value)
        if self._exact and clean != value:
            raise NotStorable(f"{place} contains NUL or half a surrogate pair")
        self._take(len(clean.encode()))
        return clean

    def _number(self, value: float, place: str) -> int | float:
        if isinstance(value, int):
            if not -_BOUND < value < _BOUND:
                raise NotStorable(f"{place} has more than {MOST_DIGITS} digits")
            self._take(value.bit_length() // 4)
            return int(value)
        if not math.isfinite(value):
            raise NotStorable(f"{place} is {value}, which is no number to JSON")
        return float(value)

    def _take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            most = MOST_BYTES // (1024 * 1024)
            raise NotStorable(
                f"it is larger than {most} MiB: keep it in a file instead"
            )


def _inside(place: str, step: str) -> str:
    return place + step if len(place) < MOST_SHOWN else place
