"""How does a commit become plain files, with nothing of git deciding what is written?

git gives the contents alone: no attribute, filter or checkout has a say. Regular files
and folders come out; a link becomes a copy of the file it names. A submodule is left
out, and told; a pointer of Git LFS stays a pointer, and is told.
"""

from __future__ import annotations

import os
import posixpath
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from buildqueue.backends.gitaddress import GitLimits
from buildqueue.backends.gitrun import Git
from buildqueue.backends.gittree import (
    FOLDER,
    LINK,
    PROGRAM,
    SUBMODULE,
    Item,
    check_names,
    link_refused,
    link_target,
    list_tree,
    refuse_bytes,
    refused,
)
from buildqueue.exceptions import Unavailable

_MAX_LINK_BYTES, _MAX_LINKS_IN_A_ROW = 4096, 10
_LFS, _LFS_BYTES = b"version https://git-lfs.github.com/spec/", 1024
_TOLD = 5  # of each sort, by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What was written."""

    files: int
    bytes: int


def write_tree(git: Git, commit: str, destination: Path, limits: GitLimits) -> Written:
    """Write the commit's files into the new folder `destination`."""
    items = list_tree(git, commit, limits)
    check_names(items)
    files = _follow_links(git, items)
    total = sum(item.size for item in files)
    refuse_bytes(total, limits)
    try:
        writer = _Writer(files, destination)
        try:
            _read(git, files, writer.take)
        finally:
            writer.close()
    except OSError as error:
        raise Unavailable(
            "git_not_written",
            f"the files of the repository could not be written: {error.strerror}",
        ) from error
    _tell_notes(git, items, writer.pointers)
    return Written(files=len(files), bytes=total)


def _follow_links(git: Git, items: Sequence[Item]) -> list[Item]:
    """Return the files to write, each link as the file at its end."""
    by_path = {item.path: item for item in items}
    links = [item for item in items if item.mode == LINK]
    targets = _link_targets(git, links) if links else {}
    files = []
    for item in items:
        end, steps = item, 0
        while end.mode == LINK:
            end = link_target(end.path, targets[end.path], by_path)
            steps += 1
            if steps > _MAX_LINKS_IN_A_ROW:
                raise link_refused(item.path, targets[item.path], "goes in a circle")
        if end.mode not in (FOLDER, SUBMODULE):
            files.append(replace(end, path=item.path))
    return files


def _link_targets(git: Git, links: Sequence[Item]) -> dict[str, str]:
    found = {link.path: b"" for link in links}
    for link in links:
        if link.size > _MAX_LINK_BYTES:
            raise link_refused(link.path, "", "is too long")

    def take(link: Item, piece: bytes) -> None:
        found[link.path] += piece

    _read(git, links, take)
    return {path: os.fsdecode(target) for path, target in found.items()}


def _read(git: Git, items: Sequence[Item], take: Callable[[Item, bytes], None]) -> None:
    """Give `take` the content of each item, in pieces; an empty one comes once."""
    if not items:
        return
    with tempfile.TemporaryFile(dir=git.repository) as wanted:
        wanted.write("".join(f"{item.object_id}\n" for item in items).encode())
        wanted.seek(0)
        contents = Contents(items, take)
        git.stream("cat-file", "--batch", on_chunk=contents.feed, stdin=wanted)
    contents.finish()


class Contents:
    """Cuts the output of `git cat-file --batch` at what the list has said."""

    def __init__(
        self, items: Sequence[Item], take: Callable[[Item, bytes], None]
    ) -> None:
        self._items, self._take = items, take
        self._at, self._buffer = 0, b""
        self._left: int | None = None  # None: a head comes next

    def feed(self, chunk: bytes) -> None:
        """Take the next piece of output."""
        self._buffer += chunk
        while self._at < len(self._items):
            item = self._items[self._at]
            if self._left is None and not self._read_head(item):
                return
            assert self._left is not None
            piece = self._buffer[: self._left]
            self._take(item, piece)
            self._left -= len(piece)
            self._buffer = self._buffer[len(piece) :]
            if self._left or not self._buffer:  # its closing newline is not there yet
                return
            self._buffer, self._left, self._at = self._buffer[1:], None, self._at + 1

    def finish(self) -> None:
        """Refuse an output that ended before all was there."""
        if self._at < len(self._items):
            raise refused(self._items[self._at].path, "is missing or damaged")

    def _read_head(self, item: Item) -> bool:
        head, newline, rest = self._buffer.partition(b"\n")
        if not newline:
            return False
        if head.decode(errors="replace") != f"{item.object_id} blob {item.size}":
            raise refused(item.path, "is missing or damaged")
        self._buffer, self._left = rest, item.size
        return True


class _Writer:
    """Writes one file after the other into a folder that nobody else writes to."""

    def __init__(self, files: Sequence[Item], destination: Path) -> None:
        self._destination = destination
        self._open: int | None = None
        self._path = ""
        self._small = b""  # what came of it, if it may be a pointer of Git LFS
        self.pointers: list[str] = []
        destination.mkdir(mode=0o755)
        for folder in sorted({posixpath.dirname(file.path) for file in files} - {""}):
            (destination / folder).mkdir(mode=0o755, parents=True, exist_ok=True)

    def take(self, item: Item, piece: bytes) -> None:
        """Write the next piece of a file."""
        if item.path != self._path:
            self.close()
            self._begin(item)
        if item.size <= _LFS_BYTES:
            self._small += piece
        assert self._open is not None
        view = memoryview(piece)
        while view:
            view = view[os.write(self._open, view) :]

    def _begin(self, item: Item) -> None:
        # Created, and no link followed: nothing that is there is ever written through.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        mode = 0o755 if item.mode == PROGRAM else 0o644
        self._open = os.open(self._destination / item.path, flags, mode)
        self._path, self._small = item.path, b""
        os.fchmod(self._open, mode)

    def close(self) -> None:
        """Close the file that is open, if one is."""
        if self._open is not None:
            os.close(self._open)
            self._open = None
            if self._small.startswith(_LFS):
                self.pointers.append(self._path)


def _tell_notes(git: Git, items: Sequence[Item], pointers: Sequence[str]) -> None:
    modules = [item.path for item in items if item.mode == SUBMODULE]
    for names, what in (
        (modules, "a submodule, and not fetched"),
        (pointers, "a pointer of Git LFS, and the file itself is not fetched"),
    ):
        for name in names[:_TOLD]:
            git.on_line(f"note: {name} is {what}")
        if len(names) > _TOLD:
            git.on_line(f"note: so are {len(names) - _TOLD} more")
