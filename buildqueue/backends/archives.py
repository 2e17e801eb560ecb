"""How is an uploaded archive unpacked without trusting a word it says?

What it is, a zip or a tar, is told by its bytes and never by its name. Every name is
checked before anything is written, every byte is counted as it is written, and only
regular files with safe modes come out. `extract_archive` leaves the whole tree or
nothing, unless this process dies: then a partial destination is the caller's to remove.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from buildqueue.backends.archivenames import Entry, Member, checked_members, refused
from buildqueue.backends.archivestreams import MIB, Source, packing_of, unpacked
from buildqueue.backends.packing import pack_tree
from buildqueue.backends.tarmembers import BLOCK, TarArchive, starts_a_tar
from buildqueue.backends.trees import remove_tree
from buildqueue.backends.zipmembers import MAGICS, ZipArchive
from buildqueue.exceptions import Rejected, Unavailable

__all__ = [
    "ArchiveLimits",
    "ArchiveReport",
    "extract_archive",
    "inspect_archive",
    "pack_tree",
    "read_member",
]

# Of a tar's headers and padding; an honest entry has at most some kilobytes.
_OVERHEAD_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLimits:
    """How much an archive may bring."""

    max_bytes_in: int = 100 * MIB
    max_entries: int = 1000  # folders too, also those that only a path names
    max_bytes_out: int = 200 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveReport:
    """What an archive holds: paths as they are (or would be) extracted, sorted."""

    format: str  # zip, tar, tar.gz, tar.bz2 or tar.xz
    files: tuple[str, ...]
    declared_bytes: int  # as the archive says, which need not be true
    unwrapped: str | None  # the single top folder that was dropped from the paths


class _Archive(Protocol):
    @property
    def format(self) -> str: ...

    def entries(self) -> Iterator[Entry]: ...

    def contents(
        self, members: Sequence[Member]
    ) -> Iterator[tuple[Member, Iterator[bytes | memoryview]]]: ...


def inspect_archive(
    file: Path | BinaryIO, limits: ArchiveLimits | None = None
) -> ArchiveReport:
    """Check the archive's names, kinds and declared sizes, and write nothing."""
    with _opened(file, limits or ArchiveLimits()) as (archive, members, unwrapped):
        return _report(archive, members, unwrapped)


def read_member(
    file: Path | BinaryIO,
    path: str,
    *,
    max_bytes: int = MIB,
    limits: ArchiveLimits | None = None,
) -> bytes | None:
    """Return one small file by its path as extracted, or None if it is not there."""
    with _opened(file, limits or ArchiveLimits()) as (archive, members, _):
        wanted = [
            member
            for member in members
            if member.path == path and not member.entry.is_folder
        ]
        for member, chunks in archive.contents(wanted):
            content = b""
            for chunk in chunks:
                content += chunk
                if len(content) > max_bytes:
                    raise refused(
                        "archive_bomb", member.entry.name, "is larger than expected"
                    )
            return content
    return None


def extract_archive(
    file: Path | BinaryIO, destination: Path, limits: ArchiveLimits | None = None
) -> ArchiveReport:
    """Extract into `destination`, a new folder; a refused archive leaves none."""
    limits = limits or ArchiveLimits()
    with _opened(file, limits) as (archive, members, unwrapped):
        try:
            destination.mkdir(mode=0o755)
        except FileExistsError:
            raise  # the caller's mistake
        except OSError as error:
            raise _not_extracted(error) from error
        try:
            _extract(archive, members, destination, limits)
        except BaseException as error:
            remove_tree(destination)
            if isinstance(error, OSError):
                raise _not_extracted(error) from error
            raise
        return _report(archive, members, unwrapped)


def _extract(
    archive: _Archive,
    members: Sequence[Member],
    destination: Path,
    limits: ArchiveLimits,
) -> None:
    written = 0
    for member, chunks in archive.contents(members):
        target = destination.joinpath(*member.parts)
        if member.entry.is_folder:
            target.mkdir(mode=0o755, parents=True, exist_ok=True)
            continue
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        # Created, and no link followed: nothing that is there is ever written through.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        mode = 0o755 if member.entry.is_program else 0o644
        with os.fdopen(os.open(target, flags, mode), "wb") as stream:
            os.fchmod(stream.fileno(), mode)
            for chunk in chunks:
                written += len(chunk)
                _refuse_bytes(written, member.entry.name, limits)
                stream.write(chunk)


@contextmanager
def _opened(
    file: Path | BinaryIO, limits: ArchiveLimits
) -> Iterator[tuple[_Archive, list[Member], str | None]]:
    with ExitStack() as stack:
        try:
            stream = (
                stack.enter_context(file.open("rb")) if isinstance(file, Path) else file
            )
        except OSError as error:
            raise Unavailable(
                "archive_unreadable", f"the archive cannot be read: {error.strerror}"
            ) from error
        source = Source(stream)
        _refuse_size(source, limits)
        archive = _recognized(source, limits)
        entries = list(_within(archive.entries(), limits))
        members, unwrapped = checked_members(entries)
        _refuse_paths(members, limits)
        yield archive, members, unwrapped


def _recognized(source: Source, limits: ArchiveLimits) -> _Archive:
    """Tell by the bytes what it is; a zip may have a program in front of it."""
    most = limits.max_bytes_out + limits.max_entries * _OVERHEAD_BYTES + MIB
    start = unpacked(source, None, most=most).start(BLOCK)
    packing = packing_of(start)
    if packing is None:
        if not start.startswith(MAGICS) and starts_a_tar(start):
            return TarArchive(source, None, most)
        return ZipArchive(source)
    inner = unpacked(source, packing, most=most).start(BLOCK)
    # A tar of nothing begins with its end, which is a block of zeros.
    if len(inner) == BLOCK and (not any(inner) or starts_a_tar(inner)):
        return TarArchive(source, packing, most)
    twice = packing_of(inner) or inner.startswith(MAGICS)
    raise Rejected(
        "invalid_archive",
        f"what is packed with {packing} is "
        f"{'packed once more' if twice else 'no tar'}; upload a zip or a tar.gz",
    )


def _within(entries: Iterable[Entry], limits: ArchiveLimits) -> Iterator[Entry]:
    """Pass the entries on while they are not too many and do not claim too much."""
    declared = 0
    for number, entry in enumerate(entries, start=1):
        if number > limits.max_entries:
            raise _too_many(limits)
        declared += entry.size
        _refuse_bytes(declared, entry.name, limits)
        yield entry


def _refuse_paths(members: Sequence[Member], limits: ArchiveLimits) -> None:
    """Refuse few entries that make many folders."""
    paths: set[tuple[str, ...]] = set()
    for member in members:
        paths.update(member.parts[:depth] for depth in range(1, len(member.parts) + 1))
        if len(paths) > limits.max_entries:
            raise _too_many(limits)


def _refuse_size(source: Source, limits: ArchiveLimits) -> None:
    if source.size > limits.max_bytes_in:
        raise Rejected(
            "archive_too_large",
            f"the archive has {source.size} bytes; "
            f"at most {limits.max_bytes_in} are taken",
        )


def _refuse_bytes(total: int, name: str, limits: ArchiveLimits) -> None:
    if total > limits.max_bytes_out:
        raise Rejected(
            "archive_bomb",
            f"with {name[:200]!r} the archive unpacks to more than "
            f"{limits.max_bytes_out} bytes",
        )


def _not_extracted(error: OSError) -> Unavailable:
    return Unavailable(
        "archive_not_extracted",
        f"the archive could not be unpacked here: {error.strerror or error}",
    )


def _too_many(limits: ArchiveLimits) -> Rejected:
    return Rejected(
        "archive_too_many_entries",
        f"the archive has more than {limits.max_entries} files and folders; "
        "leave out what is not needed",
    )


def _report(
    archive: _Archive, members: Sequence[Member], unwrapped: str | None
) -> ArchiveReport:
    files = [member for member in members if not member.entry.is_folder]
    return ArchiveReport(
        format=archive.format,
        files=tuple(sorted(member.path for member in files)),
        declared_bytes=sum(member.entry.size for member in files),
        unwrapped=unwrapped,
    )
