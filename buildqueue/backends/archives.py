"""How is an uploaded zip unpacked without trusting a word it says?

Every name is checked before anything is written, every byte is counted as it is
written, and only regular files with safe modes come out. `extract_zip` leaves the whole
tree or nothing, unless this process dies: then a partial destination is the caller's to
remove. `inspect_zip` checks names and declared sizes only, so it is cheap.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from buildqueue.backends.trees import remove_tree
from buildqueue.backends.zipmembers import Member, checked_members, refused
from buildqueue.exceptions import Rejected, Unavailable

MIB = 1024 * 1024
MAX_DIRECTORY_BYTES = 4 * MIB
_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ZipLimits:
    """How much a zip may bring."""

    max_bytes_in: int = 100 * MIB
    max_entries: int = 1000
    max_bytes_out: int = 200 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class ZipReport:
    """What a zip holds: paths as they are (or would be) extracted, sorted."""

    files: tuple[str, ...]
    declared_bytes: int  # as the zip says, which need not be true
    unwrapped: str | None  # the single top folder that was dropped from the paths


def inspect_zip(file: Path | BinaryIO, limits: ZipLimits | None = None) -> ZipReport:
    """Check the zip's names, kinds and declared sizes, and unpack nothing."""
    with _opened(file, limits or ZipLimits()) as (_, members, unwrapped):
        return _report(members, unwrapped)


def read_member(
    file: Path | BinaryIO, path: str, *, max_bytes: int = MIB
) -> bytes | None:
    """Return one small file by its path as extracted, or None if it is not there."""
    with _opened(file, ZipLimits()) as (archive, members, _):
        for member in members:
            if member.path != path or member.is_folder:
                continue
            content = b""
            for chunk in _content(archive, member):
                content += chunk
                if len(content) > max_bytes:
                    raise refused("zip_bomb", member.info, "is larger than expected")
            return content
    return None


def extract_zip(
    file: Path | BinaryIO, destination: Path, limits: ZipLimits | None = None
) -> ZipReport:
    """Extract into `destination`, which must not exist; refused zips leave nothing."""
    limits = limits or ZipLimits()
    with _opened(file, limits) as (archive, members, unwrapped):
        destination.mkdir(mode=0o755, parents=True)
        try:
            _extract(archive, members, destination, limits)
        except BaseException as error:
            remove_tree(destination)
            if isinstance(error, OSError):
                raise Unavailable(
                    "zip_not_extracted",
                    f"the zip could not be written: {error.strerror}",
                ) from error
            raise
    return _report(members, unwrapped)


def _extract(
    archive: zipfile.ZipFile,
    members: list[Member],
    destination: Path,
    limits: ZipLimits,
) -> None:
    written = 0
    for member in members:
        target = destination.joinpath(*member.parts)
        if member.is_folder:
            target.mkdir(mode=0o755, parents=True, exist_ok=True)
            continue
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        # Created, and no link followed: nothing that is there is ever written through.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        mode = 0o755 if member.is_program else 0o644
        with os.fdopen(os.open(target, flags, mode), "wb") as stream:
            os.fchmod(stream.fileno(), mode)
            for chunk in _content(archive, member):
                written += len(chunk)
                _refuse_bytes(written, member, limits)
                stream.write(chunk)


@contextmanager
def _opened(
    file: Path | BinaryIO, limits: ZipLimits
) -> Iterator[tuple[zipfile.ZipFile, list[Member], str | None]]:
    with ExitStack() as stack:
        stream = (
            stack.enter_context(file.open("rb")) if isinstance(file, Path) else file
        )
        _refuse_size(stream, limits)
        try:
            # What the end record says may lie anywhere, even before the file's start.
            archive = zipfile.ZipFile(cast("BinaryIO", _BoundedReads(stream)))
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
            raise Rejected(
                "invalid_zip", f"this is not a sound zip file: {error}"
            ) from error
        with archive:
            members, unwrapped = _members(archive, limits)
            yield archive, members, unwrapped


class _BoundedReads:
    """A stream without giant reads: the directory of a zip is read in one piece."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.seek, self.tell, self.seekable = stream.seek, stream.tell, stream.seekable

    def read(self, size: int = -1) -> bytes:
        if size > MAX_DIRECTORY_BYTES:
            raise Rejected(
                "zip_too_many_entries",
                f"the zip's list of entries takes {size} bytes; "
                f"at most {MAX_DIRECTORY_BYTES} are taken",
            )
        return self._stream.read(size)


def _report(members: list[Member], unwrapped: str | None) -> ZipReport:
    files = [member for member in members if not member.is_folder]
    return ZipReport(
        files=tuple(sorted(member.path for member in files)),
        declared_bytes=sum(member.info.file_size for member in files),
        unwrapped=unwrapped,
    )


def _content(archive: zipfile.ZipFile, member: Member) -> Iterator[bytes]:
    """Yield the member's bytes; zipfile checks the CRC at their end."""
    name = member.info.filename
    try:
        with archive.open(member.info) as stream:
            while chunk := stream.read(_CHUNK):
                yield chunk
    except (
        zlib.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
        OSError,
        ValueError,
    ) as error:
        raise Rejected(
            "zip_corrupt", f"{name!r} in the zip cannot be read: {error or 'cut short'}"
        ) from error
    except zipfile.BadZipFile as error:
        raise Rejected(
            "zip_corrupt", f"{name!r} in the zip is damaged: {error}"
        ) from error


def _refuse_size(stream: BinaryIO, limits: ZipLimits) -> None:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    if size > limits.max_bytes_in:
        raise Rejected(
            "zip_too_large",
            f"the zip has {size} bytes; at most {limits.max_bytes_in} are taken",
        )


def _refuse_bytes(total: int, member: Member, limits: ZipLimits) -> None:
    if total > limits.max_bytes_out:
        raise Rejected(
            "zip_bomb",
            f"with {member.path!r} the zip unpacks to more than "
            f"{limits.max_bytes_out} bytes",
        )


def _members(
    archive: zipfile.ZipFile, limits: ZipLimits
) -> tuple[list[Member], str | None]:
    infos = archive.infolist()
    if len(infos) > limits.max_entries:
        raise Rejected(
            "zip_too_many_entries",
            f"the zip has {len(infos)} entries; at most {limits.max_entries} are taken",
        )
    members, unwrapped = checked_members(infos)
    declared = 0
    for member in members:
        declared += member.info.file_size
        _refuse_bytes(declared, member, limits)
    return members, unwrapped
