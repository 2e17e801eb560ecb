"""How does a test get a tar? From a mapping, or header by header when it is hostile.

A tar here is a run of entries and its end; `tar_of` joins them and nothing is mended.
"""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
from collections.abc import Mapping

BLOCK = tarfile.BLOCKSIZE
END = bytes(2 * BLOCK)

AGENT = {"main.py": "# an agent\n"}


def tarred(files: Mapping[str, str] | None = None, packing: str = "gz") -> io.BytesIO:
    """Return a packed tar of the files, ready to be read; by default a small agent."""
    stream = io.BytesIO()
    with tarfile.open(None, f"w:{packing}", stream) as archive:  # type: ignore[call-overload]
        for name, text in (AGENT if files is None else files).items():
            content = text.encode()
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    stream.seek(0)
    return stream


def tar_of(*entries: bytes, end: bytes = END) -> bytes:
    """Return a tar of entries that `entry` and its like made."""
    return b"".join(entries) + end


def entry(
    name: str,
    content: bytes = b"x",
    *,
    kind: bytes = tarfile.REGTYPE,
    mode: int = 0o644,
    size: int | None = None,
    to: str = "",
) -> bytes:
    """Return one entry: its header, true or not, its content and the padding."""
    header = struct.pack(
        "100s 8s 8s 8s 12s 12s 8s c 100s 8s 32s 32s 8s 8s 155s 12x",
        name.encode("utf-8", "surrogateescape"),
        b"%07o" % mode,
        b"%07o" % 0,
        b"%07o" % 0,
        b"%011o" % (len(content) if size is None else size),
        b"%011o" % 0,
        b"",
        kind,
        to.encode(),
        b"ustar\x0000",
        *(b"", b"", b"", b"", b""),
    )
    return patched(header, 0, b"") + padded(content)


def folder(name: str) -> bytes:
    """Return a folder."""
    return entry(name, b"", kind=tarfile.DIRTYPE, mode=0o755)


def link(name: str, to: str, kind: bytes = tarfile.SYMTYPE) -> bytes:
    """Return a link, symbolic unless told otherwise."""
    return entry(name, b"", kind=kind, to=to)


def pax(kind: bytes = tarfile.XHDTYPE, /, **records: str) -> bytes:
    """Return a pax header of the records; `__` in a key stands for a dot."""
    content = b"".join(
        pax_record(key.replace("__", "."), value) for key, value in records.items()
    )
    return entry("PaxHeader", content, kind=kind)


def pax_record(key: str, value: str) -> bytes:
    """Return "LENGTH KEY=VALUE", with the length that counts itself."""
    rest = f" {key}={value}\n".encode("utf-8", "surrogateescape")
    length = len(rest) + 1
    while len(str(length)) + len(rest) != length:
        length += 1
    return str(length).encode() + rest


def long_name(name: str, kind: bytes = tarfile.GNUTYPE_LONGNAME) -> bytes:
    """Return GNU's header for a name that the plain one has no room for."""
    return entry("././@LongLink", name.encode() + b"\0", kind=kind)


def patched(raw: bytes, at: int, value: bytes) -> bytes:
    """Return the entry with bytes of its header replaced and a checksum that fits."""
    changed = bytearray(raw)
    changed[at : at + len(value)] = value
    changed[148:156] = b" " * 8
    changed[148:156] = b"%06o\0 " % sum(changed[:BLOCK])
    return bytes(changed)


def padded(content: bytes) -> bytes:
    """Return the content in whole blocks."""
    return content + bytes(-len(content) % BLOCK)


def gzipped(raw: bytes) -> bytes:
    """Return the bytes as one gzip stream."""
    return gzip.compress(raw, mtime=0)


def gzip_in_streams(raw: bytes, size: int) -> bytes:
    """Return the bytes as many gzip streams, one after the other."""
    return b"".join(gzipped(raw[at : at + size]) for at in range(0, len(raw), size))
