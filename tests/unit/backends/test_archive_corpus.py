"""Does the extractor survive what people upload? A corpus of hostile and odd archives.

Each is made here or in `tests.support`, byte by byte where a library would refuse to
write it, and unpacked beside a canary that nothing may touch.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from buildqueue.backends.archives import (
    ArchiveLimits,
    extract_archive,
    inspect_archive,
)
from buildqueue.backends.archivestreams import MAX_STREAMS
from buildqueue.exceptions import Rejected
from tests.support import tars, zips
from tests.support.tars import entry, folder, gzipped, long_name, pax, tar_of
from tests.support.zips import special, zip_of

TAKEN = "taken"
SMALL = ArchiveLimits(max_bytes_in=7_000_000, max_entries=40, max_bytes_out=150_000)

Row = tuple[str, Callable[[], bytes], str]

FINE = entry("main.py")
LONG = "a" * 256
LONG_PATH = "/".join(["ab" * 20] * 30)
DEEP = "/".join(["d"] * 60) + "/f"
COMPOSED, DECOMPOSED = "caf\u00e9.py", "cafe\u0301.py"
PLAIN = zip_of(("main.py", b"x"))


# The same names in both forms: one set of rules.
NAMES: list[tuple[str, list[str], str]] = [
    ("parent", ["../canary/evil.py"], "archive_unsafe_name"),
    ("parent inside", ["a/../../canary/file"], "archive_unsafe_name"),
    ("parent that stays inside", ["a/../b"], "archive_unsafe_name"),
    ("parent at the end", ["a/.."], "archive_unsafe_name"),
    ("absolute", ["/etc/evil.py"], "archive_unsafe_name"),
    ("two slashes", ["//etc/evil.py"], "archive_unsafe_name"),
    ("drive", ["C:/evil.py"], "archive_unsafe_name"),
    ("drive without slash", ["C:evil.py"], "archive_unsafe_name"),
    ("backslash parent", ["..\\evil.py"], "archive_unsafe_name"),
    ("share", ["\\\\host\\share"], "archive_unsafe_name"),
    ("newline", ["a\nb"], "archive_unsafe_name"),
    ("escape", ["\x1b[2J"], "archive_unsafe_name"),
    ("C1 control", ["a\x85b"], "archive_unsafe_name"),
    ("delete", ["a\x7f"], "archive_unsafe_name"),
    ("turned letters", ["a\u202eyp.exe"], "archive_unsafe_name"),
    ("line separator", ["a\u2028b"], "archive_unsafe_name"),
    ("only a dot", [".", "a"], "archive_unsafe_name"),
    ("deep", [DEEP], "archive_unsafe_name"),
    ("git in capitals", ["main.py", ".GIT/config"], "archive_unsafe_name"),
    ("git in mixed case", ["main.py", "a/.Git/config"], "archive_unsafe_name"),
    ("git by its short name", ["main.py", "GIT~1/config"], "archive_unsafe_name"),
    ("twice by a dot", ["a", "./a"], "archive_duplicate"),
    ("twice by slashes", ["d/a", "d//a"], "archive_duplicate"),
    ("twice but for case", ["Main.py", "main.py"], "archive_duplicate"),
    ("folders twice but for case", ["Src/a.py", "src/b.py"], "archive_duplicate"),
    ("twice but for composition", [COMPOSED, DECOMPOSED], "archive_duplicate"),
    ("file then folder", ["a", "a/b"], "archive_duplicate"),
    ("folder then file", ["a/b", "a"], "archive_duplicate"),
    ("file then folder but for case", ["a", "A/b"], "archive_duplicate"),
    ("only the archiver's", ["__MACOSX/._a", ".DS_Store"], "archive_empty"),
    ("only git's", [".git/config"], "archive_empty"),
    ("too many", [f"f{number}" for number in range(41)], "archive_too_many_entries"),
    (
        "too many folders",
        [f"{number}/b/c/d/e/f/g/h/i" for number in range(5)],
        "archive_too_many_entries",
    ),
    ("git's folder", ["main.py", ".git/config", "sub/.git/HEAD"], TAKEN),
    ("git's pointer", ["main.py", "sub/.git"], TAKEN),
    ("git's other files", [".gitignore", ".github/x.yml", "main.py"], TAKEN),
    ("the archiver's too", ["main.py", ".DS_Store", "._main.py"], TAKEN),
    ("odd names", ["-rf", "$(id).py", "a b", "\u65e5\u672c.py", "\U0001f40d"], TAKEN),
    ("three dots", [".../a", "..a", "a..b/c"], TAKEN),
]


def _as_zip(names: list[str]) -> Callable[[], bytes]:
    return lambda: zip_of(*((name, b"x") for name in names))


def _as_tar(names: list[str]) -> Callable[[], bytes]:
    return lambda: gzipped(
        tar_of(
            *(
                entry(name) if len(name) < 100 else long_name(name) + entry("cut")
                for name in names
            )
        )
    )


BOTH: list[Row] = [
    *((f"zip: {what}", _as_zip(names), code) for what, names, code in NAMES),
    *((f"tar: {what}", _as_tar(names), code) for what, names, code in NAMES),
]

ZIPS: list[Row] = [
    ("no zip", lambda: b"#!/bin/sh\necho no zip at all\n" * 10, "invalid_archive"),
    ("no bytes", lambda: b"", "invalid_archive"),
    ("only an end record's magic", lambda: b"PK\x05\x06", "invalid_archive"),
    ("cut in half", zips.cut_in_half, "invalid_archive"),
    ("cut end", lambda: PLAIN[:-3], "invalid_archive"),
    (
        "future version",
        lambda: zips.patched(6, struct.pack("<H", 200), ("a", b"")),
        "invalid_archive",
    ),
    ("no entry", zip_of, "archive_empty"),
    ("only folders", lambda: zip_of(("a/", b""), ("b/", b"")), "archive_empty"),
    ("giant directory", zips.with_giant_directory, "archive_too_many_entries"),
    ("too large", lambda: PLAIN + bytes(8_000_000), "archive_too_large"),
    ("declared bomb", lambda: zip_of(("a", bytes(200_000))), "archive_bomb"),
    (
        "bomb in pieces",
        lambda: zip_of(*((f"f{n}.bin", bytes(60_000)) for n in range(3))),
        "archive_bomb",
    ),
    ("bomb of a false size", zips.with_small_declared_size, "archive_corrupt"),
    ("overlap", zips.with_overlap, "archive_corrupt"),
    (
        "NUL in a name",
        lambda: zips.renamed(b"a~b", b"a\0b", ("a~b", b"x")),
        "archive_unsafe_name",
    ),
    ("long name", lambda: zip_of((LONG, b"x")), "archive_unsafe_name"),
    ("long path", lambda: zip_of((LONG_PATH, b"x")), "archive_unsafe_name"),
    (
        "very long path",
        lambda: zip_of(("/".join(["a"] * 30_000), b"x")),
        "archive_unsafe_name",
    ),
    ("parent folder", lambda: zip_of(("../", b""), ("a", b"")), "archive_unsafe_name"),
    (
        "link and a file through it",
        lambda: zip_of(zips.link("to", "../canary"), ("to/file", b"evil")),
        "archive_link",
    ),
    (
        "link that stays inside",
        lambda: zip_of(("a", b""), zips.link("b", "a")),
        "archive_link",
    ),
    (
        "link that says folder",
        lambda: zip_of(special("b/", stat.S_IFLNK, b"")),
        "archive_link",
    ),
    (
        "device",
        lambda: zip_of(special("null", stat.S_IFCHR)),
        "archive_special_file",
    ),
    ("disk", lambda: zip_of(special("sda", stat.S_IFBLK)), "archive_special_file"),
    ("pipe", lambda: zip_of(special("pipe", stat.S_IFIFO)), "archive_special_file"),
    ("socket", lambda: zip_of(special("s", stat.S_IFSOCK)), "archive_special_file"),
    (
        "folder as file",
        lambda: zip_of(special("a", stat.S_IFDIR)),
        "archive_special_file",
    ),
    (
        "file as folder",
        lambda: zip_of(special("a/", stat.S_IFREG)),
        "archive_special_file",
    ),
    ("encrypted", lambda: zips.with_flag(0x1), "archive_encrypted"),
    ("strongly encrypted", lambda: zips.with_flag(0x41), "archive_encrypted"),
    ("bzip2", lambda: zips.with_method(12), "archive_compression"),
    ("lzma", lambda: zips.with_method(14), "archive_compression"),
    ("deflate64", lambda: zips.with_method(9), "archive_compression"),
    ("unknown method", lambda: zips.with_method(99), "archive_compression"),
    (
        "twice",
        lambda: zips.renamed(b"b.py", b"a.py", ("a.py", b"x"), ("b.py", b"y")),
        "archive_duplicate",
    ),
    (
        "folder entry then file",
        lambda: zip_of(("a/", b""), ("a", b"")),
        "archive_duplicate",
    ),
    ("bad CRC", zips.with_broken_content, "archive_corrupt"),
    ("broken stream", zips.with_broken_stream, "archive_corrupt"),
    ("cut inside a member", zips.cut_inside_a_member, "archive_corrupt"),
    (
        "member beyond the end",
        lambda: zips.patched(42, struct.pack("<L", 2**31), ("main.py", b"x")),
        "archive_corrupt",
    ),
    (
        "member before the start",
        zips.with_a_place_before_the_start,
        "archive_corrupt",
    ),
    (
        "other name inside",
        lambda: PLAIN.replace(b"main.py", b"evil.py", 1),
        "archive_corrupt",
    ),
    ("trailing garbage", lambda: PLAIN + b"garbage", "archive_corrupt"),
    ("trailing zip", lambda: PLAIN + b"PK\x03\x04" + b"x" * 40, "archive_corrupt"),
    ("trailing zeros", lambda: PLAIN + bytes(100), TAKEN),
    ("program in front", lambda: b"#!/usr/bin/env python3\n" + PLAIN, TAKEN),
    ("zip64", zips.zip64, TAKEN),
    (
        "folder twice",
        lambda: zips.renamed(b"b/", b"a/", ("a/", b""), ("b/", b""), ("c.py", b"")),
        TAKEN,
    ),
    ("zip in a zip", lambda: zip_of(("inner.zip", PLAIN), ("a", b"")), TAKEN),
]

TARS: list[Row] = [
    (
        "text in a gzip",
        lambda: gzipped(b"echo no tar\n" * 99),
        "invalid_archive",
    ),
    ("few bytes in a gzip", lambda: gzipped(b"no tar"), "invalid_archive"),
    ("packed twice", lambda: gzipped(gzipped(tar_of(FINE))), "invalid_archive"),
    ("zip in a gzip", lambda: gzipped(PLAIN + bytes(999)), "invalid_archive"),
    ("zstd", lambda: b"\x28\xb5\x2f\xfd" + bytes(600), "invalid_archive"),
    (
        "first header damaged",
        lambda: tar_of(FINE).replace(b"ustar", b"USTAR"),
        "invalid_archive",
    ),
    ("nothing but the end", lambda: gzipped(tar_of()), "archive_empty"),
    ("only folders", lambda: tar_of(folder("a"), folder("b")), "archive_empty"),
    ("too large", lambda: tar_of(FINE) + bytes(8_000_000), "archive_too_large"),
    ("gzip of zeros", lambda: gzipped(bytes(5_000_000)), "archive_bomb"),
    (
        "bomb behind the end",
        lambda: gzipped(tar_of(FINE) + bytes(5_000_000)),
        "archive_bomb",
    ),
    ("bzip2 of zeros", lambda: bz2.compress(bytes(5_000_000)), "archive_bomb"),
    ("xz of zeros", lambda: lzma.compress(bytes(5_000_000)), "archive_bomb"),
    (
        "bomb of a file",
        lambda: gzipped(tar_of(entry("a", bytes(500_000)))),
        "archive_bomb",
    ),
    (
        "bomb in pieces",
        lambda: gzipped(tar_of(*(entry(f"f{n}", bytes(60_000)) for n in range(3)))),
        "archive_bomb",
    ),
    ("giant size", lambda: tar_of(entry("a", size=8**11 - 1)), "archive_bomb"),
    (
        "bomb among what is dropped",
        lambda: gzipped(tar_of(FINE, entry(".git/pack", bytes(500_000)))),
        "archive_bomb",
    ),
    (
        "empty streams without end",
        lambda: bz2.compress(tar_of(FINE)) + bz2.compress(b"") * (MAX_STREAMS + 1),
        "archive_bomb",
    ),
    (
        "xz that asks for memory",
        lambda: _xz_with_a_giant_dictionary(),
        "archive_compression",
    ),
    (
        "huge pax header",
        lambda: gzipped(tar_of(pax(comment="c" * 100_000), FINE)),
        "archive_bomb",
    ),
    (
        "pax header of a giant size",
        lambda: tar_of(entry("h", b"", kind=tarfile.XHDTYPE, size=8**11 - 1), FINE),
        "archive_bomb",
    ),
    (
        "pax path that leads out",
        lambda: tar_of(pax(path="../canary/file"), FINE),
        "archive_unsafe_name",
    ),
    (
        "pax path with a NUL",
        lambda: tar_of(pax(path="main.py\0.txt"), FINE),
        "archive_unsafe_name",
    ),
    (
        "pax path for all files",
        lambda: tar_of(pax(tarfile.XGLTYPE, path="main.py"), FINE),
        "archive_unsafe_name",
    ),
    (
        "pax size that differs",
        lambda: tar_of(pax(size="512"), entry("a", b"x" * 600)),
        "archive_corrupt",
    ),
    (
        "pax link target",
        lambda: tar_of(pax(linkpath="../canary"), tars.link("a", "b")),
        "archive_link",
    ),
    (
        "pax twice",
        lambda: tar_of(pax(path="a"), pax(path="b"), FINE),
        "archive_corrupt",
    ),
    (
        "pax and GNU name",
        lambda: tar_of(pax(path="a"), long_name("b"), FINE),
        "archive_corrupt",
    ),
    (
        "pax record of a false length",
        lambda: tar_of(entry("h", b"99 path=a\n", kind=tarfile.XHDTYPE), FINE),
        "archive_corrupt",
    ),
    (
        "pax record without length",
        lambda: tar_of(entry("h", b"path=a\n", kind=tarfile.XHDTYPE), FINE),
        "archive_corrupt",
    ),
    ("pax for no file", lambda: tar_of(FINE, pax(path="a")), "archive_corrupt"),
    (
        "two global headers",
        lambda: tar_of(*[pax(tarfile.XGLTYPE, comment="c")] * 2, FINE),
        "archive_corrupt",
    ),
    (
        "path that is no UTF-8",
        lambda: tar_of(entry("caf\udce9.py")),
        "archive_unsafe_name",
    ),
    ("long name part", lambda: tar_of(long_name(LONG), FINE), "archive_unsafe_name"),
    (
        "long GNU name",
        lambda: tar_of(long_name("a/" * 40_000 + "b"), FINE),
        "archive_unsafe_name",
    ),
    (
        "GNU name that leads out",
        lambda: tar_of(long_name("../canary/" + "a" * 120), FINE),
        "archive_unsafe_name",
    ),
    (
        "prefix that leads out",
        lambda: tar_of(tars.patched(FINE, 345, b"../canary")),
        "archive_unsafe_name",
    ),
    (
        "folder that leads out",
        lambda: tar_of(folder("../canary/"), FINE),
        "archive_unsafe_name",
    ),
    (
        "link and a file through it",
        lambda: tar_of(tars.link("to", "../canary"), entry("to/file", b"evil")),
        "archive_link",
    ),
    (
        "link that stays inside",
        lambda: tar_of(FINE, tars.link("a", "main.py")),
        "archive_link",
    ),
    (
        "hard link out",
        lambda: tar_of(tars.link("a", "../canary/file", tarfile.LNKTYPE)),
        "archive_link",
    ),
    (
        "hard link inside",
        lambda: tar_of(FINE, tars.link("a", "main.py", tarfile.LNKTYPE)),
        "archive_link",
    ),
    *(
        (f"kind {kind!r}", lambda kind=kind: tar_of(entry("a", b"", kind=kind)), code)
        for kind, code in [
            (tarfile.CHRTYPE, "archive_special_file"),
            (tarfile.BLKTYPE, "archive_special_file"),
            (tarfile.FIFOTYPE, "archive_special_file"),
            (tarfile.CONTTYPE, "archive_special_file"),
            (tarfile.GNUTYPE_SPARSE, "archive_special_file"),
            (tarfile.SOLARIS_XHDTYPE, "archive_special_file"),
            (b"M", "archive_special_file"),
            (b"V", "archive_special_file"),
            (b"D", "archive_special_file"),
            (b"?", "archive_special_file"),
        ]
    ),
    (
        "sparse by pax",
        lambda: tar_of(pax(GNU__sparse__major="1", GNU__sparse__minor="0"), FINE),
        "archive_special_file",
    ),
    ("file with a slash", lambda: tar_of(entry("a/")), "archive_special_file"),
    ("twice", lambda: tar_of(FINE, entry("main.py", b"evil")), "archive_duplicate"),
    (
        "folder entry then file",
        lambda: tar_of(folder("a/"), entry("a")),
        "archive_duplicate",
    ),
    (
        "folder with content",
        lambda: tar_of(entry("a", kind=tarfile.DIRTYPE), FINE),
        "archive_corrupt",
    ),
    (
        "size below zero",
        lambda: tar_of(tars.patched(FINE, 124, b"\xff" * 12)),
        "archive_corrupt",
    ),
    (
        "cut in a file",
        lambda: tar_of(entry("a", size=5000), end=b""),
        "archive_corrupt",
    ),
    ("cut in a header", lambda: tar_of(FINE, FINE[:300], end=b""), "archive_corrupt"),
    ("without an end", lambda: tar_of(FINE, end=b""), "archive_corrupt"),
    ("cut gzip", lambda: gzipped(tar_of(FINE))[:-9], "archive_corrupt"),
    ("cut bzip2", lambda: bz2.compress(tar_of(FINE))[:-9], "archive_corrupt"),
    ("cut xz", lambda: lzma.compress(tar_of(FINE))[:-9], "archive_corrupt"),
    ("bad CRC", lambda: _flipped(gzipped(tar_of(FINE)), -6), "archive_corrupt"),
    ("bad length", lambda: _flipped(gzipped(tar_of(FINE)), -2), "archive_corrupt"),
    (
        "second header damaged",
        lambda: tar_of(FINE, entry("a").replace(b"a", b"b", 1)),
        "archive_corrupt",
    ),
    ("trailing garbage", lambda: tar_of(FINE) + b"garbage", "archive_corrupt"),
    ("trailing tar", lambda: tar_of(FINE) + tar_of(entry("b")), "archive_corrupt"),
    (
        "garbage behind the gzip",
        lambda: gzipped(tar_of(FINE)) + b"garbage",
        "archive_corrupt",
    ),
    ("zip behind the gzip", lambda: gzipped(tar_of(FINE)) + PLAIN, "archive_corrupt"),
    ("zip behind the tar", lambda: tar_of(FINE) + PLAIN, "archive_corrupt"),
    ("plain", lambda: tar_of(FINE), TAKEN),
    ("bzip2", lambda: bz2.compress(tar_of(FINE)), TAKEN),
    ("xz", lambda: lzma.compress(tar_of(FINE)), TAKEN),
    ("gzip in streams", lambda: tars.gzip_in_streams(tar_of(FINE), 100), TAKEN),
    ("gzip with zeros behind", lambda: gzipped(tar_of(FINE)) + bytes(900), TAKEN),
    ("gzip with a name", lambda: _named_gzip(tar_of(FINE)), TAKEN),
    ("GNU name", lambda: tar_of(long_name("d/" + "a" * 200), FINE), TAKEN),
    ("long pax name", lambda: tar_of(pax(path="d/" + "a" * 200), FINE), TAKEN),
    ("prefix", lambda: tar_of(tars.patched(FINE, 345, b"a/b"), entry("c")), TAKEN),
    (
        "a commit's header",
        lambda: tar_of(pax(tarfile.XGLTYPE, comment="c"), FINE),
        TAKEN,
    ),
    (
        "attributes",
        lambda: tar_of(pax(SCHILY__xattr__user__a="\udcff", mtime="1.5"), FINE),
        TAKEN,
    ),
    ("before ustar", lambda: tar_of(tars.patched(FINE, 257, bytes(8))), TAKEN),
    ("old kind of file", lambda: tar_of(entry("a", kind=tarfile.AREGTYPE)), TAKEN),
    ("setuid", lambda: tar_of(entry("a", mode=0o6777)), TAKEN),
    ("zip as the last file", lambda: tar_of(FINE, entry("a.zip", PLAIN)), TAKEN),
]


def _flipped(raw: bytes, at: int) -> bytes:
    changed = bytearray(raw)
    changed[at] ^= 0xFF
    return bytes(changed)


def _named_gzip(raw: bytes) -> bytes:
    target = io.BytesIO()
    with gzip.GzipFile("../../canary/file", "wb", fileobj=target) as stream:
        stream.write(raw)
    return target.getvalue()


def _xz_with_a_giant_dictionary() -> bytes:
    """Return an xz that wants gigabytes, by its filter's one byte."""
    raw = bytearray(lzma.compress(tar_of(FINE), preset=0))
    # Block header: size, flags, filter 0x21 with one byte of properties, then padding.
    raw[12 + 4] = 38
    length = (raw[12] + 1) * 4
    checksum = zlib.crc32(bytes(raw[12 : 12 + length - 4]))
    raw[12 + length - 4 : 12 + length] = struct.pack("<L", checksum)
    return bytes(raw)


CORPUS = [
    *BOTH,
    *((f"zip: {what}", make, code) for what, make, code in ZIPS),
    *((f"tar: {what}", make, code) for what, make, code in TARS),
]


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A folder beside the destination, where every escape of the corpus aims."""
    canary = tmp_path / "canary"
    canary.mkdir()
    (canary / "file").write_text("sings")
    (canary / "link").symlink_to("file")
    return canary


def _listing(root: Path, *, without: Path) -> dict[str, tuple[object, ...]]:
    """Return what is there: kind, mode, size, times and content of each path."""
    found: dict[str, tuple[object, ...]] = {}
    for at, folders, files in os.walk(root):
        if Path(at) == root:
            folders[:] = [name for name in folders if root / name != without]
        for path in (Path(at, name) for name in (*folders, *files)):
            seen = path.lstat()
            is_file = stat.S_ISREG(seen.st_mode)
            content = path.read_bytes() if is_file else b""
            found[str(path)] = (
                *(seen.st_mode, seen.st_ino, seen.st_nlink, seen.st_mtime_ns),
                content,
            )
    return found


def _assert_safe(root: Path) -> None:
    """Only files and folders with our modes, together no larger than allowed."""
    total = 0
    for path in root.rglob("*"):
        seen = path.lstat()
        allowed = {0o755} if stat.S_ISDIR(seen.st_mode) else {0o755, 0o644}
        assert stat.S_ISDIR(seen.st_mode) or stat.S_ISREG(seen.st_mode), path
        assert stat.S_IMODE(seen.st_mode) in allowed, path
        assert path.name not in {".git", ".DS_Store", "__MACOSX"}
        total += 0 if path.is_dir() else seen.st_size
    assert total <= SMALL.max_bytes_out


@pytest.mark.parametrize(
    ("make", "code"), [row[1:] for row in CORPUS], ids=[row[0] for row in CORPUS]
)
def test_an_archive_ends_with_its_code_and_touches_nothing_outside(
    make: Callable[[], bytes], code: str, tmp_path: Path, canary: Path
) -> None:
    raw, destination = make(), tmp_path / "out"
    before = _listing(tmp_path, without=destination)

    try:
        extract_archive(io.BytesIO(raw), destination, SMALL)
        ended = TAKEN
    except Rejected as error:
        ended = error.code

    assert ended == code
    assert _listing(tmp_path, without=destination) == before
    assert os.path.lexists(destination) == (code == TAKEN)
    if code == TAKEN:
        assert any(path.is_file() for path in destination.rglob("*"))
        _assert_safe(destination)


@pytest.mark.parametrize(
    ("make", "code"), [row[1:] for row in CORPUS], ids=[row[0] for row in CORPUS]
)
def test_an_inspection_refuses_nothing_that_is_taken(
    make: Callable[[], bytes], code: str
) -> None:
    """And what it refuses has the code of the extraction."""
    try:
        inspect_archive(io.BytesIO(make()), SMALL)
        found = TAKEN
    except Rejected as error:
        found = error.code

    # What lies in the contents of a zip shows only while they are unpacked.
    late = code == "archive_corrupt" and found == TAKEN
    assert found == code or late


def test_the_corpus_is_large_enough_and_knows_every_code() -> None:
    assert len(CORPUS) >= 120
    assert len({name for name, _, _ in CORPUS}) == len(CORPUS)
    assert {code for _, _, code in CORPUS} == {
        TAKEN,
        "archive_bomb",
        "archive_compression",
        "archive_corrupt",
        "archive_duplicate",
        "archive_empty",
        "archive_encrypted",
        "archive_link",
        "archive_special_file",
        "archive_too_large",
        "archive_too_many_entries",
        "archive_unsafe_name",
        "invalid_archive",
    }
