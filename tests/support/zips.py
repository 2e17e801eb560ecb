"""How does a test get an archive? From a mapping of names to contents.

Hostile zips are made here too, byte by byte where a zip library would mend them.
"""

from __future__ import annotations

import io
import stat
import struct
import zipfile
from collections.abc import Mapping

AGENT = {"main.py": "# an agent\n"}

Entry = tuple[zipfile.ZipInfo | str, bytes]


def zipped(files: Mapping[str, str] | None = None) -> io.BytesIO:
    """Return a zip of the files, ready to be read; by default a small agent."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (AGENT if files is None else files).items():
            archive.writestr(name, content)
    stream.seek(0)
    return stream


def zip_of(*entries: Entry, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip of the entries, in their order."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return target.getvalue()


def special(name: str, kind: int, content: bytes = b"x", mode: int = 0o644) -> Entry:
    """Return an entry of a kind and mode of its own."""
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, (kind | mode) << 16
    return info, content


def link(name: str, target: str) -> Entry:
    """Return a symbolic link."""
    return special(name, stat.S_IFLNK, target.encode(), 0o777)


def renamed(old: bytes, new: bytes, *entries: Entry) -> bytes:
    """Return a zip in which names the library would mend stand as they are."""
    assert len(old) == len(new)
    return zip_of(*entries).replace(old, new)


def patched(offset_in_central: int, value: bytes, *entries: Entry) -> bytes:
    """Return a zip with bytes of the first central directory entry replaced."""
    raw = bytearray(zip_of(*entries))
    at = raw.index(b"PK\x01\x02") + offset_in_central
    raw[at : at + len(value)] = value
    return bytes(raw)


def with_field(local: int, central: int, value: int) -> bytes:
    """Return a zip with a 16-bit field replaced in both of its headers."""
    raw = bytearray(zip_of(("main.py", b"print()")))
    at = raw.index(b"PK\x01\x02") + central
    raw[local : local + 2] = raw[at : at + 2] = struct.pack("<H", value)
    return bytes(raw)


def with_flag(flag: int) -> bytes:
    """Return a zip whose entry has the general purpose flag."""
    return with_field(6, 8, flag)


def with_method(method: int) -> bytes:
    """Return a zip whose entry says it is packed by the method."""
    return with_field(8, 10, method)


def with_broken_content() -> bytes:
    """Return a zip whose content does not fit its CRC."""
    content = b"print('a sound file')"
    raw = zip_of(("main.py", content), method=zipfile.ZIP_STORED)
    return raw.replace(content, b"print('a bitten file')"[: len(content)])


def with_broken_stream() -> bytes:
    """Return a zip with bytes in its content that no packer writes."""
    raw = bytearray(zip_of(("main.py", bytes(range(256)) * 20)))
    raw[40:60] = b"\xff" * 20
    return bytes(raw)


def with_small_declared_size() -> bytes:
    """Return a bomb that says it has ten bytes."""
    raw = bytearray(zip_of(("bomb.py", bytes(500_000))))
    central = raw.index(b"PK\x01\x02")
    raw[22:26] = raw[central + 24 : central + 28] = struct.pack("<L", 10)
    return bytes(raw)


def with_giant_directory() -> bytes:
    """Return a zip whose end record announces a giant list of entries."""
    raw = bytearray(zip_of(("main.py", b"")))
    end = raw.rindex(b"PK\x05\x06")
    raw[end + 12 : end + 16] = struct.pack("<L", 5 * 1024 * 1024)
    return bytes(6 * 1024 * 1024) + bytes(raw)


def with_overlap() -> bytes:
    """Return a zip of two entries that are the same bytes of the file."""
    one = zip_of(("a.py", bytes(range(256)) * 200))
    central, end = one.index(b"PK\x01\x02"), one.rindex(b"PK\x05\x06")
    entry, record = one[central:end], bytearray(one[end:])
    record[8:12] = struct.pack("<HH", 2, 2)
    record[12:16] = struct.pack("<L", 2 * len(entry))
    return one[:end] + entry.replace(b"a.py", b"b.py") + bytes(record)


def with_a_place_before_the_start() -> bytes:
    """Return a zip64 whose entry begins at a place no file has."""
    target = io.BytesIO()
    with (
        zipfile.ZipFile(target, "w") as archive,
        archive.open("main.py", "w", force_zip64=True) as stream,
    ):
        stream.write(b"1")
    raw = bytearray(target.getvalue())
    at = raw.index(b"PK\x01\x02")
    name_bytes, extra_bytes = struct.unpack_from("<HH", raw, at + 28)
    extra = struct.pack("<HHQ", 1, 8, 2**64 - 1)
    raw[at + 30 : at + 32] = struct.pack("<H", len(extra))
    raw[at + 42 : at + 46] = b"\xff" * 4
    raw[at + 46 + name_bytes : at + 46 + name_bytes + extra_bytes] = extra
    end = raw.rindex(b"PK\x05\x06")
    raw[end + 12 : end + 16] = struct.pack("<L", end - at)
    return bytes(raw)


def cut_in_half() -> bytes:
    """Return the first half of a zip."""
    raw = zip_of(("main.py", bytes(range(256)) * 100), method=zipfile.ZIP_STORED)
    return raw[: len(raw) // 2]


def cut_inside_a_member() -> bytes:
    """Return a zip whose content ends early and whose list of entries is intact."""
    raw = zip_of(("main.py", bytes(range(256)) * 10), method=zipfile.ZIP_STORED)
    central = raw.index(b"PK\x01\x02")
    body, rest = raw[:central], bytearray(raw[central:])
    end = rest.index(b"PK\x05\x06")
    rest[end + 16 : end + 20] = struct.pack("<L", 100)
    return body[:100] + bytes(rest)


def zip64() -> bytes:
    """Return a zip with the sizes of a zip64."""
    target = io.BytesIO()
    with (
        zipfile.ZipFile(target, "w") as archive,
        archive.open("main.py", "w", force_zip64=True) as stream,
    ):
        stream.write(b"1")
    return target.getvalue()
