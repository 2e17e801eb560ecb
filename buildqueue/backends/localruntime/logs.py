"""Where does an instance's output go? Into a file that never grows beyond its bound.

At the limit the file becomes `<name>.1`, replacing an older one, and a new file begins:
at most twice the limit is kept, and the last lines are always there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

ROTATE_BYTES = 5 * 1024 * 1024
_TAIL_BYTES = 1024 * 1024
_MOST_LINES = 10_000


class BoundedLog:
    """Appends bytes to a file and rotates it; a full disk loses output, no more."""

    def __init__(self, path: Path, limit: int = ROTATE_BYTES) -> None:
        self._path, self._limit = path, limit
        self._descriptor = self._open()
        self._size = os.fstat(self._descriptor).st_size

    def write(self, chunk: bytes) -> None:
        """Append the chunk."""
        if self._size and self._size + len(chunk) > self._limit:
            self._rotate()
        try:
            self._size += os.write(self._descriptor, chunk)
        except OSError:
            return  # the instance must not die of a full disk

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _rotate(self) -> None:
        try:
            self._path.replace(older(self._path))
            descriptor = self._open()
        except OSError:
            return
        os.close(self._descriptor)
        self._descriptor, self._size = descriptor, 0

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def older(path: Path) -> Path:
    """Return the name that the file has after its rotation."""
    return path.with_name(f"{path.name}.1")


def tail(path: Path, lines: int) -> list[str]:
    """Return the last lines, oldest first, from at most the last MiB of output."""
    wanted = max(0, min(lines, _MOST_LINES))
    content = _last_bytes(path, _TAIL_BYTES)
    if len(content) < _TAIL_BYTES:
        content = _last_bytes(older(path), _TAIL_BYTES - len(content)) + content
    found = content.decode("utf-8", "replace").splitlines()
    return found[-wanted:] if wanted else []


def tail_of_all(paths: Mapping[str, Path], lines: int) -> list[str]:
    """Return the last lines of all files, each line with its file's name if many.

    All get an equal share; the file that was written to last comes last.
    """
    there = {name: path for name, path in paths.items() if path.exists()}
    if len(there) < 2:
        return [line for path in there.values() for line in tail(path, lines)]
    ordered = sorted(there.items(), key=lambda item: item[1].stat().st_mtime)
    share = -(-max(lines, 0) // len(there))
    found = [f"[{n}] {line}" for n, path in ordered for line in tail(path, share)]
    return found[-lines:] if lines > 0 else []


def _last_bytes(path: Path, count: int) -> bytes:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - count))
            return file.read(count)
    except FileNotFoundError:
        return b""
