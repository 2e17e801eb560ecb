"""What does a zip hold, and what is in each of its entries?

Kinds are decided from the zip's list of entries: nothing encrypted, no link, nothing
packed in a way that has no bounds known here, no two entries that share bytes. A zip
ends where it says. zipfile reads it; what it raises becomes one clear refusal.
"""

from __future__ import annotations

import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from typing import BinaryIO, cast

from buildqueue.backends.archivenames import Entry, Member, refused
from buildqueue.backends.archivestreams import CHUNK, Source
from buildqueue.exceptions import Rejected

MAGICS = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")

_END, _END_BYTES, _LOCAL_BYTES = b"PK\x05\x06", 22, 30
_ENCRYPTED = 0x1 | 0x40  # flag bits: traditional and strong encryption
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    ArithmeticError,
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
)


class ZipArchive:
    """A zip that is read for its entries first and for their contents afterwards."""

    format = "zip"

    def __init__(self, source: Source) -> None:
        try:
            _refuse_what_follows(source)
            self._zip = zipfile.ZipFile(cast("BinaryIO", source))
        except _FAULTS as error:
            raise Rejected(
                "invalid_archive", f"this is neither a sound zip nor a tar: {error}"
            ) from error
        self._infos = self._zip.infolist()

    def entries(self) -> Iterator[Entry]:
        """Yield each entry, its kind checked."""
        _refuse_overlaps(self._infos)
        for index, info in enumerate(self._infos):
            yield _entry(index, info)

    def contents(
        self, members: Sequence[Member]
    ) -> Iterator[tuple[Member, Iterator[bytes]]]:
        """Yield each of the members with its bytes, to be read before the next."""
        for member in members:
            yield member, self._content(self._infos[member.entry.index])

    def _content(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        """Yield the bytes; zipfile checks the CRC at their end."""
        if info.is_dir():
            return
        try:
            with self._zip.open(info) as stream:
                while chunk := stream.read(CHUNK):
                    yield chunk
        except _FAULTS as error:
            raise refused(
                "archive_corrupt",
                info.orig_filename,
                f"is damaged: {error or 'cut short'}",
            ) from error


def _entry(index: int, info: zipfile.ZipInfo) -> Entry:
    # `filename` is already cut at a NUL and freed of backslashes where the system has
    # others; `orig_filename` is what the archive says.
    name, mode, is_folder = info.orig_filename, info.external_attr >> 16, info.is_dir()
    kind = stat.S_IFMT(mode)
    if info.flag_bits & _ENCRYPTED:
        raise refused(
            "archive_encrypted", name, "is encrypted; upload it without a password"
        )
    if kind == stat.S_IFLNK:
        raise refused("archive_link", name, "is a link; replace it by the file itself")
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise refused("archive_special_file", name, "is neither a file nor a folder")
    if (kind == stat.S_IFDIR and not is_folder) or (kind == stat.S_IFREG and is_folder):
        raise refused("archive_special_file", name, "says both file and folder")
    if info.compress_type not in _METHODS:
        raise refused("archive_compression", name, "uses a method other than deflate")
    return Entry(
        name=name,
        index=index,
        is_folder=is_folder,
        is_program=bool(mode & 0o111),
        size=info.file_size,
    )


def _refuse_overlaps(infos: Sequence[zipfile.ZipInfo]) -> None:
    """Refuse entries that share bytes: small zips grow beyond all measure by them."""
    last: zipfile.ZipInfo | None = None
    for info in sorted(infos, key=lambda info: info.header_offset):
        if last is not None:
            end = last.header_offset + _LOCAL_BYTES + last.compress_size
            if info.header_offset < end:
                raise refused(
                    "archive_corrupt",
                    info.orig_filename,
                    f"lies inside of {last.orig_filename[:200]!r}",
                )
        last = info


def _refuse_what_follows(source: Source) -> None:
    """Refuse bytes after the end: another reader may take them for another archive."""
    start = max(source.size - _END_BYTES - 0xFFFF, 0)
    source.seek(start)
    tail = source.read(source.size - start)
    at = tail.rfind(_END)
    if at < 0 or len(tail) < at + _END_BYTES:
        return  # no zip at all, or cut short: zipfile says so
    (comment,) = struct.unpack_from("<H", tail, at + _END_BYTES - 2)
    end = at + _END_BYTES + comment
    if end > len(tail):
        raise Rejected("archive_corrupt", "the zip is cut short; upload it again")
    if tail[end:].strip(b"\0"):
        raise Rejected(
            "archive_corrupt", "other bytes follow the zip; upload the zip alone"
        )
