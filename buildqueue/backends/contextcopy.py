"""Where in the image does the source stand, going by COPY and ADD?

The local backend copies the whole source once, so a copy is a no-op as long as it keeps
the layout: the file `a/b` must land on `<root>/a/b`, with one root for all copies.
Others are refused. A requirements file may land anywhere, for pip alone reads it.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from buildqueue.backends.dockerfile import Instruction

MOST_PATTERNS = 100
LONGEST_PATTERN = 1000

_HARMLESS_FLAGS = frozenset({"chown", "chmod", "link"})
_REQUIREMENTS = re.compile(r"[\w.-]*requirements[\w.-]*\.(txt|in)")
_UNPACKED = re.compile(r".*\.(tar|tgz|tbz2?|txz|tar\.\w+)", re.IGNORECASE)
_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://|git@", re.IGNORECASE)
_GLOB = re.compile(r"[*?\[]")


@dataclass(slots=True)
class ContextCopies:
    """What the copies so far say about the image."""

    source: Path
    root: str | None = None
    _folders: set[str] = field(default_factory=lambda: {"/"})
    _requirements: dict[str, str] = field(default_factory=dict)  # image -> source path
    _patterns: int = 0

    def make_folder(self, path: str) -> None:
        """Note that the folder and its parents exist in the image."""
        folder = PurePosixPath(path)
        self._folders.update(str(part) for part in (folder, *folder.parents))

    def in_source(self, path: str, workdir: str) -> str | None:
        """Return the source's path of a file in the image, or None."""
        if path in self._requirements:
            return self._requirements[path]
        root = self.root or workdir
        inside = PurePosixPath(path)
        return str(inside.relative_to(root)) if inside.is_relative_to(root) else None

    def take(self, instruction: Instruction, words: list[str], workdir: str) -> None:
        """Apply one COPY or ADD, or refuse it."""
        for flag, _ in instruction.flags:
            if flag not in _HARMLESS_FLAGS:
                raise instruction.needs_container(f"has nothing for --{flag}")
        if len(words) < 2:
            raise instruction.invalid("needs a source and a destination")
        *sources, given = words
        destination = posixpath.normpath(posixpath.join(workdir, given))
        is_folder = (
            len(sources) > 1
            or given.endswith(("/", "/."))
            or given in (".", "..")
            or destination in self._folders
        )
        for name in self._listed(instruction, sources):
            path = destination
            if is_folder and not os.path.isdir(self.source / name):
                path = posixpath.join(destination, posixpath.basename(name))
            self._place(instruction, name, path)

    def _listed(self, instruction: Instruction, sources: Sequence[str]) -> list[str]:
        """Return the files and folders of the source that the words name."""
        listed: list[str] = []
        for word in sources:
            name = posixpath.normpath(word.lstrip("/") or ".")
            if _REMOTE.match(word):
                raise instruction.needs_container("fetches nothing for ADD")
            if name == ".." or name.startswith("../"):
                raise instruction.invalid(f"names {word}, outside of the source")
            if instruction.name == "ADD" and _UNPACKED.fullmatch(name):
                raise instruction.needs_container("unpacks no archives")
            listed.extend(self._matches(instruction, word, name))
        return listed

    def _matches(self, instruction: Instruction, word: str, name: str) -> list[str]:
        if "**" in name:
            raise instruction.needs_container(f"knows no ** as in {word}")
        if not _GLOB.search(name):
            # pathlib raises for a name too long for any file; os.path says no.
            if not os.path.exists(self.source / name):
                raise instruction.invalid(f"names {word}, which is not in the source")
            return [name]
        self._patterns += 1
        if self._patterns > MOST_PATTERNS or len(name) > LONGEST_PATTERN:
            # Each looks at every file of a folder, and whoever uploads waits for it.
            raise instruction.invalid("has too many patterns, or one too long")
        try:
            found = sorted(self.source.glob(name))
        except OSError:  # a part of it is too long for any file
            found = []
        if not found:
            raise instruction.invalid(f"names {word}, which matches nothing")
        if any(path.is_dir() for path in found):
            # A container copies what is inside each of them, all into one folder.
            raise instruction.needs_container(f"keeps folders apart: {word} names some")
        return [path.relative_to(self.source).as_posix() for path in found]

    def _place(self, instruction: Instruction, name: str, path: str) -> None:
        if _REQUIREMENTS.fullmatch(posixpath.basename(name)):
            self._requirements[path] = name
            self.make_folder(posixpath.dirname(path))
            return
        own = PurePosixPath(name).parts
        there = PurePosixPath(path).parts
        if there[len(there) - len(own) :] != own:
            raise instruction.needs_container(f"keeps {name} where the source has it")
        root = str(PurePosixPath(*there[: len(there) - len(own)]))
        if self.root not in (None, root):
            raise instruction.needs_container(
                f"has one place for the source, which is {self.root} already"
            )
        self.root = root
        is_folder = os.path.isdir(self.source / name)
        self.make_folder(path if is_folder else posixpath.dirname(path))
