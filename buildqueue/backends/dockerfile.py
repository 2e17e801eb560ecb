"""What does a Dockerfile say? Its instructions, with the lines they begin on.

Only the syntax is read here: continuations, comments, the escape directive, JSON and
shell forms, variables. What the local backend makes of an instruction is decided in
`localplan`. Here-documents are refused, because they change what a line is.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from buildqueue.exceptions import Rejected

MAX_BYTES = 64 * 1024

_DIRECTIVE = re.compile(r"#\s*([A-Za-z]+)\s*=\s*(\S+)\s*")
_HEREDOC = re.compile(r"(?:^|\s)<<-?[\"']?[A-Za-z_]")
_FLAG = re.compile(r"--([a-z][a-z-]*)(?:=(\S*))?(?:\s+|$)")
# What no program can be given as an argument, and no file can be named.
_UNUSABLE = re.compile("[\0\ud800-\udfff]")
_VARIABLE = re.compile(
    r"\\(?P<escaped>\$)"
    r"|\$(?P<plain>[A-Za-z_][A-Za-z0-9_]*)"
    r"|\$\{(?P<braced>[A-Za-z_][A-Za-z0-9_]*)(?::(?P<sign>[-+])(?P<word>[^}]*))?\}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction: `COPY --link a b` is COPY, (("link", ""),) and "a b"."""

    line: int
    name: str  # in capitals
    flags: tuple[tuple[str, str], ...]
    rest: str

    def json_form(self) -> list[str] | None:
        """Return the list of strings, or None when this is the shell form."""
        try:
            value = json.loads(self.rest)
        except (ValueError, RecursionError):
            return None
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            return None
        if any(_UNUSABLE.search(word) for word in value):
            raise self.invalid("holds NUL or half a character")
        return value

    def words(self) -> list[str]:
        """Return the shell form's words, without their quotes."""
        try:
            return shlex.split(self.rest)
        except ValueError as error:
            raise self.invalid(f"cannot be read: {error}") from error

    def invalid(self, why: str) -> Rejected:
        """Return the error for an instruction that is wrong in any backend."""
        return Rejected("dockerfile_invalid", f"{self.place}: {self.name} {why}")

    def needs_container(self, why: str = "") -> Rejected:
        """Return the error for an instruction that is right, but not for `local`."""
        shown = f"{self.name} {self.rest}".strip()
        shown = shown if len(shown) <= 60 else f"{shown[:60].rstrip()} ..."
        reason = why or "installs requirements.txt and starts Python, no more"
        return Rejected(
            "needs_container_backend",
            f"{self.place}: {shown} needs a container backend; "
            f"the local backend {reason}",
        )

    @property
    def place(self) -> str:
        """Return the words by which messages name the line."""
        return f"Dockerfile line {self.line}"


def read_instructions(content: bytes) -> list[Instruction]:
    """Return the instructions in order; refuse what no builder would take."""
    if len(content) > MAX_BYTES:
        raise Rejected(
            "dockerfile_invalid", f"the Dockerfile is larger than {MAX_BYTES} bytes"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Rejected("dockerfile_invalid", "the Dockerfile is not UTF-8") from error
    if "\0" in text:
        raise Rejected("dockerfile_invalid", "the Dockerfile holds NUL characters")
    lines = text.splitlines()
    joined = _join(lines, _escape_character(lines))
    return [_instruction(line, words) for line, words in joined]


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Put in the variables' values; an unknown one is empty, as in a shell."""
    pieces: list[str] = []
    size = end = 0
    for match in _VARIABLE.finditer(text):
        pieces += [text[end : match.start()], _value(match, variables)]
        size += len(pieces[-1])
        end = match.end()
        if size > MAX_BYTES:
            # A variable made of itself twice doubles with every line.
            raise Rejected("dockerfile_invalid", "a variable of the Dockerfile is huge")
    return "".join([*pieces, text[end:]])


def _value(match: re.Match[str], variables: Mapping[str, str]) -> str:
    if match["escaped"]:
        return "$"
    found = variables.get(match["plain"] or match["braced"], "")
    match match["sign"]:
        case "-":
            return found or match["word"]
        case "+":
            return match["word"] if found else ""
        case _:
            return found


def _escape_character(lines: list[str]) -> str:
    # Directives are comments at the very top; the first other line ends them.
    for line in lines:
        match = _DIRECTIVE.fullmatch(line.strip())
        if match is None:
            break
        if match[1].lower() == "escape":
            if match[2] not in ("\\", "`"):
                raise Rejected(
                    "dockerfile_invalid", "the escape directive must be \\ or `"
                )
            return match[2]
    return "\\"


def _join(lines: list[str], escape: str) -> list[tuple[int, str]]:
    """Return each instruction as one line, with the number of its first."""
    joined: list[tuple[int, str]] = []
    begun, parts = 0, list[str]()
    for number, line in enumerate(lines, start=1):
        stripped = line.strip()
        # Comments and empty lines inside a continuation do not end it.
        if not stripped or stripped.startswith("#"):
            continue
        begun = begun if parts else number
        continues = stripped.endswith(escape)
        parts.append(stripped[:-1] if continues else stripped)
        if not continues:
            joined.append((begun, " ".join(part.strip() for part in parts).strip()))
            parts = []
    if parts:
        joined.append((begun, " ".join(part.strip() for part in parts).strip()))
    return joined


def _instruction(line: int, text: str) -> Instruction:
    name, rest = (*text.split(None, 1), "", "")[:2]
    name = name.upper()
    if not name.isalpha():
        raise Rejected(
            "dockerfile_invalid", f"Dockerfile line {line}: {name[:50]!r} is unknown"
        )
    if name in ("RUN", "COPY", "ADD") and _HEREDOC.search(rest):
        raise Rejected(
            "needs_container_backend",
            f"Dockerfile line {line}: a here-document needs a container backend; "
            "put its text into a file of the source",
        )
    flags: list[tuple[str, str]] = []
    if name not in ("CMD", "ENTRYPOINT"):
        while match := _FLAG.match(rest):
            flags.append((match[1], match[2] or ""))
            rest = rest[match.end() :]
    return Instruction(line=line, name=name, flags=tuple(flags), rest=rest)
