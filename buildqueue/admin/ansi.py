"""How does terminal output become text with classes?

Pure. Colors and weights of the 16-color palette become class names, never styles; every
other control sequence is dropped. A carriage return keeps what was written last, as a
terminal would. Text is returned unescaped: templates escape it, the page's script sets
it as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

MAX_LINE = 16 * 1024

_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_OTHER = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles and links
    r"|\x1b\[[0-?]*[ -/]*[@-~]?"  # cursor, erase, modes
    r"|\x1b[ -/]*[0-~]?"  # the short ones
    r"|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]"
)
_ON = {1: "bold", 2: "dim", 3: "italic", 4: "underline"}
_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",)}
_COLORS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


@dataclass(slots=True)
class Pen:
    """How the next text is drawn; kept from line to line."""

    flags: set[str] = field(default_factory=set)
    color: str = ""

    @property
    def classes(self) -> str:
        """The class names of text drawn now."""
        names = [*sorted(self.flags), *([self.color] if self.color else [])]
        return " ".join(f"bq-{name}" for name in names)

    def take(self, sequence: str) -> None:
        """Follow the codes of one color sequence."""
        # int() refuses thousands of digits, and no code has more than three.
        codes = [int(code[:4] or 0) for code in sequence.split(";")]
        while codes:
            code = codes.pop(0)
            if code in (38, 48):  # 256 or true color: more than the palette, dropped
                del codes[: 2 if codes[:1] == [5] else 4]
            else:
                self._take_code(code)

    def _take_code(self, code: int) -> None:
        if code == 0:
            self.flags, self.color = set(), ""
        elif code in _ON:
            self.flags.add(_ON[code])
        elif code in _OFF:
            self.flags -= set(_OFF[code])
        elif 30 <= code <= 37 or 90 <= code <= 97:
            self.color = _COLORS[code % 10]
        elif code == 39:
            self.color = ""


def segments(line: str, pen: Pen) -> list[tuple[str, str]]:
    """Return a line's pieces as (text, class names), and move the pen along."""
    return [piece for piece in _pieces(_shown(line), pen) if piece[0]]


def _shown(line: str) -> str:
    kept = line.rstrip("\r").rpartition("\r")[2]
    return kept if len(kept) <= MAX_LINE else f"{kept[:MAX_LINE]} …"


def _pieces(line: str, pen: Pen) -> Iterator[tuple[str, str]]:
    start = 0
    for found in _SGR.finditer(line):
        yield _OTHER.sub("", line[start : found.start()]), pen.classes
        pen.take(found[1])
        start = found.end()
    yield _OTHER.sub("", line[start:]), pen.classes
