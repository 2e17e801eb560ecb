"""What does a tar hold, and what is in each of its entries?

The stream is read once for the entries and once more for their contents, never as a
whole and never backwards. Only regular files and folders pass; of the many ways to say
a thing twice (pax records, GNU long names, sparse maps) the honest ones are read, and
whatever two readers could read differently is refused.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from buildqueue.backends.archivenames import Entry, Member, refused
from buildqueue.backends.archivestreams import Source, Unpacked, unpacked
from buildqueue.backends.tarnames import Extensions
from buildqueue.exceptions import Rejected

BLOCK = tarfile.BLOCKSIZE

_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE)
_LINKS = (tarfile.SYMTYPE, tarfile.LNKTYPE)


@dataclass(frozen=True, slots=True)
class TarArchive:
    """A tar, packed or not, of which at most `most` bytes are ever unpacked."""

    source: Source
    packing: str | None
    most: int

    @property
    def format(self) -> str:
        """Return its name: tar, tar.gz, tar.bz2 or tar.xz."""
        return f"tar.{self.packing}" if self.packing else "tar"

    def entries(self) -> Iterator[Entry]:
        """Yield each entry, its kind checked."""
        for entry, _ in self._walk():
            yield entry

    def contents(
        self, members: Sequence[Member]
    ) -> Iterator[tuple[Member, Iterator[memoryview]]]:
        """Yield each of the members with its bytes, to be read before the next."""
        wanted = {member.entry: member for member in members}
        for entry, content in self._walk():
            if member := wanted.pop(entry, None):
                yield member, content
        if wanted:
            raise Rejected("archive_corrupt", "the archive changed while it was read")

    def _walk(self) -> Iterator[tuple[Entry, Iterator[memoryview]]]:
        stream = unpacked(self.source, self.packing, most=self.most)
        index, extensions = 0, Extensions()
        while (block := stream.piece(BLOCK)).count(0) < BLOCK:
            header = _header(block, index)
            if extensions.take(header, stream):
                continue
            entry = _entry(index, header, extensions)
            content = stream.exactly(entry.size)
            yield entry, content
            for _ in content:
                pass  # what the caller left unread
            stream.skip(-entry.size % BLOCK)
            index += 1
            extensions.forget()
        extensions.refuse_the_lonely()
        _refuse_what_follows(stream)


def starts_a_tar(start: bytes) -> bool:
    """Tell whether the bytes begin with a sound header."""
    try:
        tarfile.TarInfo.frombuf(start[:BLOCK], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def _header(block: bytes, index: int) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise Rejected(
            "archive_corrupt", f"entry {index + 1} of the tar is damaged: {error}"
        ) from error


def _entry(index: int, header: tarfile.TarInfo, extensions: Extensions) -> Entry:
    name, is_folder = extensions.name_of(header), header.type == tarfile.DIRTYPE
    if header.type in _LINKS:
        raise refused("archive_link", name, "is a link; replace it by the file itself")
    if extensions.is_sparse or header.type == tarfile.GNUTYPE_SPARSE:
        raise refused("archive_special_file", name, "is sparse; pack it as it is")
    if header.type not in _FILES and not is_folder:
        raise refused("archive_special_file", name, "is neither a file nor a folder")
    if not is_folder and name.endswith("/"):
        raise refused("archive_special_file", name, "says both file and folder")
    if header.size < 0 or (is_folder and header.size):
        raise refused("archive_corrupt", name, f"has a size of {header.size} bytes")
    return Entry(
        name=name,
        index=index,
        is_folder=is_folder,
        is_program=bool(header.mode & 0o111),
        size=header.size,
    )


def _refuse_what_follows(stream: Unpacked) -> None:
    """Read to the end, where checksums are, and refuse anything but zeros."""
    while piece := stream.read(BLOCK * 128):
        if bytes(piece).strip(b"\0"):
            raise Rejected(
                "archive_corrupt", "other bytes follow the tar; upload the tar alone"
            )
