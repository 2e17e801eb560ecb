"""Which entries of a zip may become files, and under which paths?

All is decided from the zip's list of entries, before anything is unpacked: no path
leads out, none is there twice, and none is anything but a regular file or a folder.
Names are taken as the archive has them, not as the zip library would mend them.
"""

from __future__ import annotations

import stat
import unicodedata
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace

from buildqueue.exceptions import Rejected

MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_DEPTH = 255, 1024, 50

_ENCRYPTED = 0x1 | 0x40  # flag bits: traditional and strong encryption
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# What a desktop's archiver adds for itself, and no owner means to deploy.
_DROPPED_FOLDER, _DROPPED_FILE = "__MACOSX", ".DS_Store"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One entry, its path checked and split."""

    info: zipfile.ZipInfo
    parts: tuple[str, ...]
    is_folder: bool
    is_program: bool

    @property
    def path(self) -> str:
        """Return the path as extracted."""
        return "/".join(self.parts)


def checked_members(
    infos: Sequence[zipfile.ZipInfo],
) -> tuple[list[Member], str | None]:
    """Return the members to extract, and the single top folder they were freed of."""
    found = [_member(info) for info in infos]
    # "./", the top itself, has no parts and is there already.
    kept = [member for member in found if member.parts and not _is_dropped(member)]
    if all(member.is_folder for member in kept):
        raise Rejected("zip_empty", "the zip holds no file; add the source to it")
    _refuse_conflicts(kept)
    return _unwrap(kept)


def refused(code: str, info: zipfile.ZipInfo, why: str) -> Rejected:
    """Return the error that names the entry."""
    return Rejected(code, f"{info.orig_filename[:200]!r} in the zip {why}")


def _member(info: zipfile.ZipInfo) -> Member:
    mode = info.external_attr >> 16
    kind = stat.S_IFMT(mode)
    is_folder = info.is_dir()
    if info.flag_bits & _ENCRYPTED:
        raise refused(
            "zip_encrypted", info, "is encrypted; upload it without a password"
        )
    if kind == stat.S_IFLNK:
        raise refused("zip_link", info, "is a link; replace it by the file itself")
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise refused("zip_special_file", info, "is neither a file nor a folder")
    if (kind == stat.S_IFDIR and not is_folder) or (kind == stat.S_IFREG and is_folder):
        raise refused("zip_special_file", info, "says both file and folder")
    if info.compress_type not in _METHODS:
        raise refused("zip_compression", info, "uses a method other than deflate")
    return Member(
        info=info,
        parts=_parts(info),
        is_folder=is_folder,
        is_program=bool(mode & 0o111),
    )


def _parts(info: zipfile.ZipInfo) -> tuple[str, ...]:
    # `filename` is already cut at a NUL and freed of backslashes where the system has
    # others; `orig_filename` is what the archive says.
    name = info.orig_filename
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
        raise refused("zip_bad_name", info, "has a control character in its name")
    if "\\" in name:
        raise refused("zip_bad_name", info, "has a backslash in its name")
    if name.startswith("/") or (len(name) > 1 and name[1] == ":"):
        raise refused("zip_outside", info, "has an absolute path")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise refused("zip_outside", info, "leads out of the folder with '..'")
    if not parts and not info.is_dir():
        raise refused("zip_bad_name", info, "has no name")
    longest = max((len(part.encode()) for part in parts), default=0)
    if longest > MAX_NAME_BYTES or len(name.encode()) > MAX_PATH_BYTES:
        raise refused("zip_bad_name", info, "has a name that is too long")
    if len(parts) > MAX_DEPTH:
        raise refused("zip_bad_name", info, f"is nested more than {MAX_DEPTH} deep")
    return parts


def _is_dropped(member: Member) -> bool:
    return member.parts[0] == _DROPPED_FOLDER or member.parts[-1] == _DROPPED_FILE


def _refuse_conflicts(members: list[Member]) -> None:
    """Refuse what would need one path twice: as two files, or as file and folder."""
    files: set[tuple[str, ...]] = set()
    folders: set[tuple[str, ...]] = set()
    for member in members:
        parents = {member.parts[:depth] for depth in range(1, len(member.parts))}
        own = folders if member.is_folder else files
        if member.parts in files or (not member.is_folder and member.parts in folders):
            raise refused("zip_duplicate", member.info, "is there twice")
        if blocked := parents & files:
            name = "/".join(blocked.pop())
            raise refused("zip_duplicate", member.info, f"needs {name!r} as a folder")
        own.add(member.parts)
        folders |= parents


def _unwrap(members: list[Member]) -> tuple[list[Member], str | None]:
    tops = {member.parts[0] for member in members}
    if len(tops) > 1 or any(
        not member.is_folder and len(member.parts) == 1 for member in members
    ):
        return members, None
    inner = [
        replace(member, parts=member.parts[1:])
        for member in members
        if len(member.parts) > 1
    ]
    return inner, tops.pop()
