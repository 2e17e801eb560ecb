"""Where does a planted secret stand, in whatever form? Everywhere it could is read here.

The whole database, every file below a folder with what its archives hold, and every
command line that was seen on the machine. What is found is told by place and form, never
by value.
"""

from __future__ import annotations

import json
import os
import tarfile
import threading
import zipfile
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

from django.db import connection

SHORTEST = 8
PAUSE_SECONDS = 0.01
# Every table of every schema but PostgreSQL's own; rows come as documents, whose texts
# stand there as they are, and not as a dump escapes them.
TABLES = """
SELECT quote_ident(table_schema) || '.' || quote_ident(table_name)
FROM information_schema.tables
WHERE table_type = 'BASE TABLE'
  AND table_schema NOT IN ('pg_catalog', 'information_schema')
ORDER BY 1
"""

Places = Iterable[tuple[str, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A secret that stands where it should not."""

    name: str
    form: str
    place: str
    around: str  # with the secret taken out


def forms_of(value: str) -> Iterator[tuple[str, str]]:
    """Yield the forms in which a value may be written down, by name."""
    raw = value.encode()
    yield "plain", value
    yield "json", json.dumps(value)[1:-1]
    yield "repr", repr(value)[1:-1]
    yield "repr beside other quotes", repr(value + "'\"")[1:-4]
    yield "latin-1", raw.decode("latin-1")
    yield "ascii", ascii(value)[1:-1]
    yield "bytes", repr(raw)[2:-1]
    yield "hex", raw.hex()
    yield "HEX", raw.hex().upper()
    for name, quoted in (
        ("quote", quote(raw)),
        ("quote all", quote(raw, safe="")),
        ("quote plus", quote_plus(raw)),
    ):
        yield name, quoted
        yield f"{name}, small", _small(quoted)
    for name, encode in (("base64", b64encode), ("base64url", urlsafe_b64encode)):
        yield name, encode(raw).decode().rstrip("=")
        for before in (1, 2):  # inside other text it looks different
            inner = encode(bytes(before) + raw).decode().rstrip("=")
            yield f"{name} behind {before}", inner[before + 1 : -1]
    if len(value) >= 3 * SHORTEST and "\n" not in value:
        half = len(value) // 2
        yield "first half", value[:half]
        yield "second half", value[half:]
    for number, line in enumerate(value.splitlines() if "\n" in value else ()):
        if len(line) >= SHORTEST and not line.startswith("-----"):
            yield f"line {number}", line


def _small(quoted: str) -> str:
    parts = quoted.split("%")
    return "%".join([parts[0], *(each[:2].lower() + each[2:] for each in parts[1:])])


@dataclass(slots=True)
class Search:
    """Looks for named values in all their forms."""

    values: Mapping[str, str]
    _needles: dict[bytes, tuple[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        # Forms that are the same text count once.
        self._needles = {
            text.encode(): (name, form)
            for name, value in self.values.items()
            for form, text in forms_of(value)
            if len(text) >= SHORTEST
        }

    def wanted(self) -> dict[tuple[str, str], str]:
        """Return all that is looked for, by the secret's name and its form."""
        return {known: text.decode() for text, known in self._needles.items()}

    def through(self, places: Places) -> list[Found]:
        """Return all that stands there."""
        found = []
        for place, content in places:
            for needle, (name, form) in self._needles.items():
                at = content.find(needle)
                if at >= 0:
                    around = content[max(0, at - 80) : at] + b"<here>"
                    told = around.decode(errors="replace")
                    found.append(Found(name=name, form=form, place=place, around=told))
        return found


def told(found: Iterable[Found]) -> str:
    """Return in lines what stands where."""
    lines = {
        f"{each.name} as {each.form} in {each.place}: {each.around}" for each in found
    }
    return "\n".join(sorted(lines))


def database() -> Iterator[tuple[str, bytes]]:
    """Yield every row of the database, by table."""
    with connection.cursor() as cursor:
        cursor.execute(TABLES)
        tables = [name for (name,) in cursor.fetchall()]
        for table in tables:
            cursor.execute(f"SELECT to_jsonb(each)::text FROM {table} AS each")
            for (row,) in cursor.fetchall():
                yield table, "\0".join(_texts(json.loads(row))).encode()


def _texts(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for name, inner in value.items():
                yield name
                yield from _texts(inner)
        case list():
            for inner in value:
                yield from _texts(inner)
        case str():
            yield value
            if value.startswith("\\x"):  # how to_jsonb tells bytes
                with suppress(ValueError):
                    yield bytes.fromhex(value[2:]).decode(errors="replace")
        case None:
            return
        case _:
            yield str(value)


def files(folder: Path, *, but: Iterable[Path] = ()) -> Iterator[tuple[str, bytes]]:
    """Yield every file below the folder, with its name and what is packed in it."""
    left_out = tuple(but)
    for path in sorted(folder.rglob("*")):
        if any(path.is_relative_to(each) for each in left_out):
            continue
        name = str(path.relative_to(folder))
        if path.is_symlink():
            yield name, f"{name}\0{path.readlink()}".encode()
        elif path.is_file():
            with suppress(FileNotFoundError):  # ended meanwhile
                yield name, name.encode() + b"\0" + path.read_bytes()
                yield from _packed(path, name)


def _packed(path: Path, name: str) -> Iterator[tuple[str, bytes]]:
    with suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        for each in archive.namelist():
            yield f"{name}!{each}", each.encode() + b"\0" + archive.read(each)
    with suppress(tarfile.TarError, EOFError), tarfile.open(path) as packed:
        for member in packed:
            content = packed.extractfile(member) if member.isfile() else None
            told = content.read() if content else b""
            yield f"{name}!{member.name}", member.name.encode() + b"\0" + told


@contextmanager
def command_lines() -> Iterator[set[bytes]]:
    """Collect every command line of the machine, looked at all the time, meanwhile."""
    seen: set[bytes] = set()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(PAUSE_SECONDS):
            for process in filter(str.isdigit, os.listdir("/proc")):
                with suppress(OSError), open(f"/proc/{process}/cmdline", "rb") as file:
                    seen.add(file.read())  # OSError: it has just ended

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
