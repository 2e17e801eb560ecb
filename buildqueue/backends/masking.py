"""How is a secret kept out of what is printed? Each place where it stands becomes `***`.

Besides the values their forms in base64, hex, URLs, JSON and Python's print are found,
and each long line of a value of several. A stream says what the whole text would have
said, however it is cut. Values shorter than 4 characters are not masked: they would be
found everywhere.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias
from urllib.parse import quote, quote_plus

Encode: TypeAlias = Callable[[bytes], bytes]

SHORTEST = 4
SHORTEST_LINE = 8
# A piece of base64 that begins inside other text is short before it is telling.
SHORTEST_PIECE = 8

_ESCAPE = re.compile("%[0-9A-F]{2}")


class Masker:
    """Knows the secrets of one run; says nothing of them, whatever it is asked."""

    __slots__ = ("_inner", "_mark", "_needles")

    def __init__(self, values: Iterable[str]) -> None:
        """Mask these values from now on."""
        kept = {value for value in values if len(value) >= SHORTEST}
        forms = {form for value in kept for form in _forms(value)}
        self._needles = tuple(sorted(forms))
        # What may stand in a secret before its last character.
        self._inner = frozenset("".join(needle[:-1] for needle in self._needles))
        self._mark = 3 * _unused("".join(self._needles))

    def mask(self, text: str) -> str:
        """Return the text without any of the secrets."""
        return self.stream().rest(text)

    def mask_all(self, value: Any) -> Any:
        """Return a JSON value without any of the secrets, in its names neither."""
        match value:
            case str():
                return self.mask(value)
            case dict():
                pairs = value.items()
                return {self.mask(key): self.mask_all(each) for key, each in pairs}
            case list():
                return [self.mask_all(each) for each in value]
        return value

    def stream(self) -> MaskedStream:
        """Return a stream that masks a text which comes in pieces."""
        return MaskedStream(self._needles, self._inner, self._mark)


class MaskedStream:
    """A text that comes in pieces, and leaves without secrets."""

    __slots__ = ("_after_mark", "_covered", "_held", "_inner", "_mark", "_needles")

    def __init__(
        self, needles: tuple[str, ...], inner: frozenset[str], mark: str
    ) -> None:
        """Mask what contains a needle; `Masker.stream` makes one."""
        self._needles, self._inner, self._mark = needles, inner, mark
        self._held = ""  # what may be the beginning of a secret
        self._covered = 0  # so much of its beginning is part of one in any case
        self._after_mark = False

    def feed(self, text: str) -> str:
        """Take a piece; return what is certain by now."""
        text = self._held + text
        spans = self._spans(text)
        until = len(text) - self._begun(text)
        told = self._told(text, spans, until)
        self._held = text[until:]
        over = [end - until for start, end in spans if start <= until < end]
        self._covered = max(over, default=0)
        return told

    def flush(self) -> str:
        """Return the rest: nothing comes after it."""
        return self.rest("")

    def rest(self, text: str) -> str:
        """Take the last piece; return all that was not certain before."""
        text, self._held = self._held + text, ""
        told = self._told(text, self._spans(text), len(text))
        self._covered, self._after_mark = 0, False
        return told

    def _begun(self, text: str) -> int:
        """Return how much of the end may be the beginning of a secret."""
        if text[-1:] not in self._inner:  # as most lines, which end with a newline
            return 0
        return max((_beginning(needle, text) for needle in self._needles), default=0)

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Return where secrets stand, in order; they may overlap."""
        found = [(0, self._covered)] if self._covered else []
        for needle in [each for each in self._needles if each in text]:
            start = text.find(needle)
            while start >= 0:
                found.append((start, start + len(needle)))
                start = text.find(needle, start + 1)
        return sorted(found)

    def _told(self, text: str, spans: list[tuple[int, int]], until: int) -> str:
        """Return the text up to a place, with one mark for secrets that touch."""
        parts, at = [], 0
        for start, end in spans:
            if start >= until:
                break
            if start > at:
                parts.append(text[at:start])
                self._after_mark = False
            if not self._after_mark:
                parts.append(self._mark)
                self._after_mark = True
            at = max(at, min(end, until))
        if at < until:
            parts.append(text[at:until])
            self._after_mark = False
        return "".join(parts)


def _beginning(needle: str, text: str) -> int:
    """Return how much of the text's end may be the beginning of the needle."""
    start = text.find(needle[0], max(0, len(text) - len(needle) + 1))
    while start >= 0:
        if needle.startswith(text[start:]):
            return len(text) - start
        start = text.find(needle[0], start + 1)
    return 0


def _forms(value: str) -> Iterator[str]:
    """Yield what a secret may look like in print."""
    raw = value.encode("utf-8", "surrogatepass")
    yield value
    for quoted in (quote(raw), quote(raw, safe=""), quote_plus(raw)):
        yield from (quoted, _ESCAPE.sub(lambda found: found[0].lower(), quoted))
    yield from (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    yield from (repr(value)[1:-1], ascii(value)[1:-1], repr(raw)[2:-1])
    yield from (raw.hex(), raw.hex().upper())
    yield raw.decode("latin-1")  # as HTTP takes what is no header
    for encode in (b64encode, urlsafe_b64encode):
        whole = encode(raw).decode("ascii")
        yield from (whole, whole.rstrip("="))
        yield from _pieces(raw, encode)
    # A tab, too, comes apart: programs that print in columns make spaces of it.
    if len(lines := value.replace("\t", "\n").splitlines()) > 1:
        stripped = (line.strip() for line in lines)
        yield from (line for line in stripped if len(line) >= SHORTEST_LINE)


def _pieces(raw: bytes, encode: Encode) -> Iterator[str]:
    """Yield what base64 makes of it inside a longer text, whatever stands around it."""
    for before in range(3):
        text = encode(bytes(before) + raw).decode("ascii").rstrip("=")
        first = (0, 2, 3)[before]  # what stands before has a part in these
        last = len(text) - ((before + len(raw)) % 3 > 0)
        if last - first >= SHORTEST_PIECE:
            yield text[first:last]


def _unused(text: str) -> str:
    """Return a character of which no secret has any: no mark completes one."""
    marks = ("*", "#", *map(chr, range(0x2580, 0xD800)))
    return next((mark for mark in marks if mark not in text), "*")
