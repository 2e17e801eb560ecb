"""How is an archive's file read, packed or not, without trusting its sizes?

`Source` is the file itself: its own failures are Unavailable, never the archive's
fault. `Unpacked` is the stream inside: counted while it is unpacked, a piece at a time,
so that neither memory nor time follows from what the archive says about itself.
"""

from __future__ import annotations

import bz2
import errno
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Protocol

from buildqueue.exceptions import Rejected, Unavailable

CHUNK = 64 * 1024
MIB = 1024 * 1024
MAX_READ = 4 * MIB  # a zip's list of entries is read in one piece
MAX_MEMORY = 128 * MIB  # of an xz stream, which asks for its own
# Parallel packers write one stream a block; each costs time, even an empty one.
MAX_STREAMS = 10_000

_FAULTS = (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError)


class Source:
    """An archive's file, which says so when it is the disk that fails."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.seekable = stream.seekable
        self.size = self.seek(0, os.SEEK_END)
        self.seek(0)

    def read(self, size: int = -1) -> bytes:
        """Read; refuse a giant piece, which only a false size can ask for."""
        if size > MAX_READ:
            raise Rejected(
                "archive_too_many_entries",
                f"the archive's list of entries takes {size} bytes; "
                f"at most {MAX_READ} are taken",
            )
        try:
            return self._stream.read(size)
        except OSError as error:
            raise _unreadable(error) from error

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move; OSError for a place before the file's start, as of a real file."""
        try:
            return self._stream.seek(offset, whence)
        except (ValueError, OverflowError) as error:
            raise OSError(errno.EINVAL, "no such place in the file") from error
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise
            raise _unreadable(error) from error

    def tell(self) -> int:
        """Return the place."""
        return self._stream.tell()


class Unpacked:
    """The bytes of a stream, at most so many of them."""

    def __init__(self, chunks: Iterator[bytes], *, most: int) -> None:
        self._chunks, self._most = chunks, most
        self._chunk, self._total = memoryview(b""), 0

    def read(self, size: int) -> memoryview:
        """Return some of the next bytes, at most `size`; none at the end."""
        if not self._chunk:
            self._chunk = memoryview(next(self._chunks, b""))
            self._total += len(self._chunk)
            if self._total > self._most:
                raise Rejected(
                    "archive_bomb",
                    f"the archive unpacks to more than {self._most} bytes",
                )
        piece, self._chunk = self._chunk[:size], self._chunk[size:]
        return piece

    def exactly(self, size: int) -> Iterator[memoryview]:
        """Yield the next `size` bytes in pieces; refuse a stream that ends before."""
        while size:
            piece = self.read(min(size, CHUNK))
            if not piece:
                raise Rejected(
                    "archive_corrupt", "the archive is cut short; upload it again"
                )
            size -= len(piece)
            yield piece

    def piece(self, size: int) -> bytes:
        """Return the next `size` bytes as one; for small sizes."""
        return b"".join(self.exactly(size))

    def start(self, size: int) -> bytes:
        """Return the first bytes as one, fewer if there are not so many."""
        pieces = []
        while size and (piece := self.read(size)):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def skip(self, size: int) -> None:
        """Unpack `size` bytes and drop them."""
        for _ in self.exactly(size):
            pass


class _Unpacker(Protocol):
    """What the decompressors of bz2 and lzma have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, given: bytes, max_length: int, /) -> bytes: ...


class _Gzip:
    """zlib's decompressor with the manners of the others; checks CRC and length."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, given: bytes, max_length: int, /) -> bytes:
        unpacked = self._inner.decompress(
            self._inner.unconsumed_tail + given, max_length
        )
        # A full piece may leave more behind inside, though all input is taken.
        self.needs_input = (
            not self._inner.unconsumed_tail and len(unpacked) < max_length
        )
        return unpacked


PACKINGS: dict[str, tuple[bytes, Callable[[], _Unpacker]]] = {
    "gz": (b"\x1f\x8b", _Gzip),
    "bz2": (b"BZh", bz2.BZ2Decompressor),
    "xz": (
        b"\xfd7zXZ\0",
        lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_MEMORY),
    ),
}


def packing_of(start: bytes) -> str | None:
    """Return how a file with these first bytes is packed, None if it is not."""
    for name, (magic, _) in PACKINGS.items():
        if start.startswith(magic):
            return name
    return None


def unpacked(source: Source, packing: str | None, *, most: int) -> Unpacked:
    """Return the stream inside the file, from its start."""
    source.seek(0)
    if packing is None:
        return Unpacked(iter(lambda: source.read(CHUNK), b""), most=most)
    return Unpacked(_streams(source, PACKINGS[packing][1]), most=most)


def _streams(source: Source, make: Callable[[], _Unpacker]) -> Iterator[bytes]:
    """Unpack one stream after the other; between and after them zeros alone stand."""
    rest, streams = source.read(CHUNK), 0
    while rest:
        streams += 1
        if streams > MAX_STREAMS:
            raise Rejected(
                "archive_bomb",
                f"the archive is packed in more than {MAX_STREAMS} parts",
            )
        unpacker = make()
        while not unpacker.eof:
            given = b""
            if unpacker.needs_input:
                given, rest = rest or source.read(CHUNK), b""
                if not given:
                    raise Rejected(
                        "archive_corrupt", "the archive is cut short; upload it again"
                    )
            if piece := _piece(unpacker, given):
                yield piece
        rest = _after_zeros(source, unpacker.unused_data)


def _piece(unpacker: _Unpacker, given: bytes) -> bytes:
    try:
        return unpacker.decompress(given, CHUNK)
    except _FAULTS as error:
        if "emory usage limit" in str(error):
            raise Rejected(
                "archive_compression",
                f"the archive needs more than {MAX_MEMORY // MIB} MiB of memory to "
                "unpack; pack it with a smaller dictionary",
            ) from error
        raise Rejected(
            "archive_corrupt",
            f"the archive is damaged, or other bytes follow it: {error}",
        ) from error


def _after_zeros(source: Source, rest: bytes) -> bytes:
    while True:
        if kept := rest.lstrip(b"\0"):
            return kept
        rest = source.read(CHUNK)
        if not rest:
            return b""


def _unreadable(error: OSError) -> Unavailable:
    return Unavailable(
        "archive_unreadable", f"the archive cannot be read: {error.strerror or error}"
    )
