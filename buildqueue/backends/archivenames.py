"""Which entries of an archive may become files, and under which paths?

One set of rules for zips, tars and what this package packs itself: no path leads out,
none is there twice on any file system, and what archivers add for themselves is dropped.
All is decided from the list of entries, before a byte is written. Names are taken as
the archive has them, not as a library would mend them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

from buildqueue.exceptions import Rejected

MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_DEPTH = 255, 1024, 50

# Controls, halves of letters (bytes that are no UTF-8), and breaks of a line.
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
# Letters that turn the order of what follows: a name must read as what it is.
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# What a desktop's archiver and git add for themselves: no owner means to deploy it.
_DROPPED_TOP, _DROPPED_NAME, _DROPPED_PREFIX = "__MACOSX", ".DS_Store", "._"
_GIT, _GIT_SHORT = ".git", "git~1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of an archive that is a regular file or a folder."""

    name: str
    index: int  # its place in the archive
    is_folder: bool
    is_program: bool
    size: int  # as the archive says, which need not be true


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """An entry that will be extracted, its path checked and split."""

    entry: Entry
    parts: tuple[str, ...]

    @property
    def path(self) -> str:
        """Return the path as extracted."""
        return "/".join(self.parts)


def refused(code: str, name: str, why: str) -> Rejected:
    """Return the error that names the entry."""
    return Rejected(code, f"{name[:200]!r} in the archive {why}")


def checked_members(entries: Sequence[Entry]) -> tuple[list[Member], str | None]:
    """Return the members to extract, and the single top folder they were freed of."""
    found = [Member(entry=entry, parts=_parts(entry)) for entry in entries]
    # "./", the top itself, has no parts and is there already.
    kept = [member for member in found if member.parts and not _is_dropped(member)]
    if all(member.entry.is_folder for member in kept):
        raise Rejected("archive_empty", "the archive holds no file; add the source")
    _refuse_conflicts(kept)
    return _unwrap(kept)


def _parts(entry: Entry) -> tuple[str, ...]:
    name = entry.name
    if len(name) > MAX_PATH_BYTES:
        raise _unsafe(name, "has a name that is too long")
    _refuse_letters(name)
    if name.startswith("/") or (len(name) > 1 and name[1] == ":"):
        raise _unsafe(name, "has an absolute path")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise _unsafe(name, "leads out of the folder with '..'")
    if not parts and not entry.is_folder:
        raise _unsafe(name, "has no name")
    if any(part != _GIT and _folded(part) in (_GIT, _GIT_SHORT) for part in parts):
        raise _unsafe(name, "would be a '.git' elsewhere; leave it out")
    longest = max((len(part.encode()) for part in parts), default=0)
    if longest > MAX_NAME_BYTES or len(name.encode()) > MAX_PATH_BYTES:
        raise _unsafe(name, "has a name that is too long")
    if len(parts) > MAX_DEPTH:
        raise _unsafe(name, f"is nested more than {MAX_DEPTH} deep")
    return parts


def _refuse_letters(name: str) -> None:
    for letter in name:
        if unicodedata.category(letter) in _UNSAFE_CATEGORIES or letter in _TURNING:
            raise _unsafe(name, "has a control character in its name")
    if "\\" in name:
        raise _unsafe(name, "has a backslash in its name")


def _unsafe(name: str, why: str) -> Rejected:
    return refused("archive_unsafe_name", name, why)


def _is_dropped(member: Member) -> bool:
    name = member.parts[-1]
    return (
        member.parts[0] == _DROPPED_TOP
        or _GIT in member.parts
        or name == _DROPPED_NAME
        or name.startswith(_DROPPED_PREFIX)
    )


def _folded(part: str) -> str:
    """Return what names share that are one name on some file system."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", part).casefold())


def _refuse_conflicts(members: Sequence[Member]) -> None:
    """Refuse what would need one path twice: as two files, or as file and folder."""
    files: set[tuple[str, ...]] = set()
    folders: set[tuple[str, ...]] = set()
    spelled: dict[tuple[str, ...], tuple[str, ...]] = {}
    for member in members:
        name, parts = member.entry.name, member.parts
        key = tuple(_folded(part) for part in parts)
        for depth in range(1, len(parts) + 1):
            other = spelled.setdefault(key[:depth], parts[:depth])
            if other != parts[:depth]:
                raise _twice(name, f"is {'/'.join(other)!r} in another spelling")
        parents = {key[:depth] for depth in range(1, len(key))}
        if key in files or (not member.entry.is_folder and key in folders):
            raise _twice(name, "is there twice")
        if blocked := parents & files:
            raise _twice(name, f"needs {'/'.join(spelled[blocked.pop()])!r} as folder")
        (folders if member.entry.is_folder else files).add(key)
        folders |= parents


def _twice(name: str, why: str) -> Rejected:
    return refused("archive_duplicate", name, why)


def _unwrap(members: list[Member]) -> tuple[list[Member], str | None]:
    tops = {member.parts[0] for member in members}
    if len(tops) > 1 or any(
        not member.entry.is_folder and len(member.parts) == 1 for member in members
    ):
        return members, None
    inner = [
        replace(member, parts=member.parts[1:])
        for member in members
        if len(member.parts) > 1
    ]
    return inner, tops.pop()
