"""What do the headers before a tar's entry say about it?

pax records and GNU long names give a name that the plain header has no room for; they
are small, stand once before their entry, and say nothing the header contradicts.
Everything else in them is left unread, and what changes the meaning of later entries
is refused.
"""

from __future__ import annotations

import tarfile

from buildqueue.backends.archivenames import MAX_PATH_BYTES, refused
from buildqueue.backends.archivestreams import Unpacked
from buildqueue.exceptions import Rejected

# Attributes of files take some, of one entry and of all together.
MAX_HEADER_BYTES, MAX_HEADERS_BYTES = 64 * 1024, 4 * 1024 * 1024

_PAX, _GLOBAL = tarfile.XHDTYPE, tarfile.XGLTYPE
_LONG_NAME, _LONG_LINK = tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK
_PER_FILE = ("path", "linkpath", "size")
_SPARSE = ("GNU.sparse.", "SCHILY.realsize")


class Extensions:
    """What the headers since the last entry say about the next one."""

    def __init__(self) -> None:
        self._has_global = False
        self._bytes = 0
        self.forget()

    def forget(self) -> None:
        """Start again, after an entry."""
        self._seen: set[bytes] = set()
        self._records: dict[str, str] = {}
        self._long_name: str | None = None

    @property
    def is_sparse(self) -> bool:
        """Tell whether the entry's content is a map of holes."""
        return any(key.startswith(_SPARSE) for key in self._records)

    def take(self, header: tarfile.TarInfo, stream: Unpacked) -> bool:
        """Read the header's content if it is an extension; tell whether it is."""
        if header.type not in (_PAX, _GLOBAL, _LONG_NAME, _LONG_LINK):
            return False
        content = self._content(header, stream)
        if header.type == _GLOBAL:
            self._take_global(header.name, _records(header.name, content))
            return True
        if header.type in self._seen:
            raise refused("archive_corrupt", header.name, "stands twice before a file")
        self._seen.add(header.type)
        if header.type == _PAX:
            self._records = _records(header.name, content)
        elif header.type == _LONG_NAME:
            self._long_name = _text(content.rstrip(b"\0"))
        return True

    def name_of(self, header: tarfile.TarInfo) -> str:
        """Return the entry's name; refuse two names, and a size that is another."""
        path = self._records.get("path")
        if path is not None and self._long_name is not None:
            raise refused("archive_corrupt", path, "has two names")
        size = self._records.get("size")
        if size is not None and size != str(header.size):
            raise refused("archive_corrupt", header.name, "has two sizes")
        given = self._long_name if path is None else path
        if given is None:
            return header.name
        return given.rstrip("/") if header.type == tarfile.DIRTYPE else given

    def refuse_the_lonely(self) -> None:
        """Refuse headers that belong to no entry."""
        if self._seen:
            raise Rejected("archive_corrupt", "the tar ends before its last entry")

    def _content(self, header: tarfile.TarInfo, stream: Unpacked) -> bytes:
        is_name = header.type in (_LONG_NAME, _LONG_LINK)
        if is_name and header.size > MAX_PATH_BYTES + 1:  # its NUL
            raise refused("archive_unsafe_name", header.name, "holds a name too long")
        self._bytes += header.size
        if not 0 <= header.size <= MAX_HEADER_BYTES or self._bytes > MAX_HEADERS_BYTES:
            raise refused(
                "archive_bomb", header.name, f"is a header of {header.size} bytes"
            )
        content = stream.piece(header.size)
        stream.skip(-header.size % tarfile.BLOCKSIZE)
        return content

    def _take_global(self, name: str, records: dict[str, str]) -> None:
        # git writes one, with the commit as its comment.
        if self._has_global or self._seen:
            raise refused("archive_corrupt", name, "is one global header too many")
        if any(key in _PER_FILE or key.startswith(_SPARSE) for key in records):
            raise refused(
                "archive_unsafe_name", name, "renames or resizes all files together"
            )
        self._has_global = True


def _records(name: str, content: bytes) -> dict[str, str]:
    """Return the records "LENGTH KEY=VALUE\\n"; refuse any other form."""
    records, at = {}, 0
    while at < len(content):
        digits = content[at : at + 7].partition(b" ")[0]
        length = int(digits) if digits.isdigit() else 0
        record, at = content[at : at + length], at + length
        key, equals, value = record[len(digits) + 1 : -1].partition(b"=")
        if not key or not equals or record[-1:] != b"\n" or len(record) != length:
            raise refused("archive_corrupt", name, "is not a sound pax header")
        records[_text(key)] = _text(value)
    return records


def _text(content: bytes) -> str:
    # Bytes that are no UTF-8 become letters that no name may have.
    return content.decode("utf-8", "surrogateescape")
