"""Does the extractor survive what people upload? A corpus of hostile and odd zips.

Each archive is made here, byte by byte where a zip library would refuse to write it.
"""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from buildqueue.backends.archives import (
    ZipLimits,
    _extract,
    extract_zip,
    inspect_zip,
    read_member,
)
from buildqueue.backends.zipmembers import checked_members
from buildqueue.exceptions import Rejected, Unavailable

Entry = tuple[zipfile.ZipInfo | str, bytes]

SMALL = ZipLimits(max_bytes_in=200_000, max_entries=20, max_bytes_out=100_000)


def zipped(*entries: Entry, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return target.getvalue()


def special(name: str, kind: int, content: bytes = b"x", mode: int = 0o644) -> Entry:
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, (kind | mode) << 16
    return info, content


def renamed(old: bytes, new: bytes, *entries: Entry) -> bytes:
    """Return a zip in which names the library would mend stand as they are."""
    assert len(old) == len(new)
    return zipped(*entries).replace(old, new)


def patched(offset_in_central: int, value: bytes, entries: tuple[Entry, ...]) -> bytes:
    """Return a zip with bytes of the first central directory entry replaced."""
    raw = bytearray(zipped(*entries))
    at = raw.index(b"PK\x01\x02") + offset_in_central
    raw[at : at + len(value)] = value
    return bytes(raw)


def with_flag(flag: int) -> bytes:
    raw = bytearray(zipped(("main.py", b"print()")))
    central = raw.index(b"PK\x01\x02")
    raw[6:8] = raw[central + 8 : central + 10] = struct.pack("<H", flag)
    return bytes(raw)


def with_method(method: int) -> bytes:
    raw = bytearray(zipped(("main.py", b"print()")))
    central = raw.index(b"PK\x01\x02")
    raw[8:10] = raw[central + 10 : central + 12] = struct.pack("<H", method)
    return bytes(raw)


def with_broken_content() -> bytes:
    content = b"print('a sound file')"
    raw = zipped(("main.py", content), method=zipfile.ZIP_STORED)
    return raw.replace(content, b"print('a bitten file')"[: len(content)])


def with_broken_stream() -> bytes:
    raw = bytearray(zipped(("main.py", bytes(range(256)) * 20)))
    raw[40:60] = b"\xff" * 20
    return bytes(raw)


def with_small_declared_size() -> bytes:
    """A bomb that says it has ten bytes."""
    content = b"\0" * 500_000
    raw = bytearray(zipped(("bomb.py", content)))
    central = raw.index(b"PK\x01\x02")
    raw[22:26] = raw[central + 24 : central + 28] = struct.pack("<L", 10)
    return bytes(raw)


def with_sizes_that_add_up() -> bytes:
    """No entry is too large, all together are."""
    return zipped(*((f"f{number}.bin", b"\0" * 60_000) for number in range(3)))


def with_giant_directory() -> bytes:
    """An end record that announces a directory of a gigabyte."""
    raw = bytearray(zipped(("main.py", b"")))
    end = raw.rindex(b"PK\x05\x06")
    raw[end + 12 : end + 16] = struct.pack("<L", 5 * 1024 * 1024)
    return b"\0" * (6 * 1024 * 1024) + bytes(raw)


def with_far_member() -> bytes:
    return patched(42, struct.pack("<L", 2**31), (("main.py", b"x"),))


def with_other_local_name() -> bytes:
    raw = zipped(("main.py", b"x"))
    return raw.replace(b"main.py", b"evil.py", 1)


def cut_in_half() -> bytes:
    raw = zipped(("main.py", bytes(range(256)) * 100), method=zipfile.ZIP_STORED)
    return raw[: len(raw) // 2]


def cut_inside_a_member() -> bytes:
    """The data ends early, the directory is intact."""
    raw = zipped(("main.py", bytes(range(256)) * 10), method=zipfile.ZIP_STORED)
    central = raw.index(b"PK\x01\x02")
    body, rest = raw[:central], bytearray(raw[central:])
    end = rest.index(b"PK\x05\x06")
    rest[end + 16 : end + 20] = struct.pack("<L", 100)
    return body[:100] + bytes(rest)


MANY = tuple((f"f{number}", b"") for number in range(25))
LONG = "a" * 256
DEEP = "/".join(["d"] * 60) + "/f"

HOSTILE: list[tuple[str, str, Callable[[], bytes]]] = [
    ("not a zip", "invalid_zip", lambda: b"#!/bin/sh\necho no zip at all\n" * 10),
    ("no bytes", "invalid_zip", lambda: b""),
    ("only an end record's magic", "invalid_zip", lambda: b"PK\x05\x06"),
    ("a gzip", "invalid_zip", lambda: b"\x1f\x8b" + zlib.compress(b"x" * 999)),
    ("no entry", "zip_empty", lambda: zipped()),
    ("only folders", "zip_empty", lambda: zipped(("a/", b""), ("b/", b""))),
    ("only the archiver's", "zip_empty", lambda: zipped(("__MACOSX/._a", b"x"))),
    ("too many entries", "zip_too_many_entries", lambda: zipped(*MANY)),
    ("giant directory", "zip_too_many_entries", with_giant_directory),
    ("too large", "zip_too_large", lambda: zipped(("a", b"")) + b"\0" * 300_000),
    ("declared bomb", "zip_bomb", lambda: zipped(("a", b"\0" * 200_000))),
    ("bomb in pieces", "zip_bomb", with_sizes_that_add_up),
    ("bomb with a false size", "zip_corrupt", with_small_declared_size),
    ("parent", "zip_outside", lambda: zipped(("../evil.py", b"x"))),
    ("parent inside", "zip_outside", lambda: zipped(("a/../../evil.py", b"x"))),
    ("parent that stays inside", "zip_outside", lambda: zipped(("a/../b", b"x"))),
    ("parent folder", "zip_outside", lambda: zipped(("../", b""), ("a", b""))),
    ("absolute", "zip_outside", lambda: zipped(("/etc/passwd", b"x"))),
    ("two slashes", "zip_outside", lambda: zipped(("//etc/passwd", b"x"))),
    ("drive", "zip_outside", lambda: zipped(("C:/evil.py", b"x"))),
    ("drive without slash", "zip_outside", lambda: zipped(("C:evil.py", b"x"))),
    ("backslash parent", "zip_bad_name", lambda: zipped(("..\\evil.py", b"x"))),
    ("backslash", "zip_bad_name", lambda: zipped(("a\\b.py", b"x"))),
    ("share", "zip_bad_name", lambda: zipped(("\\\\host\\share", b"x"))),
    ("NUL", "zip_bad_name", lambda: renamed(b"a~b", b"a\0b", ("a~b", b"x"))),
    ("newline", "zip_bad_name", lambda: zipped(("a\nb", b"x"))),
    ("escape", "zip_bad_name", lambda: zipped(("\x1b[2J", b"x"))),
    ("C1 control", "zip_bad_name", lambda: zipped(("a\x85b", b"x"))),
    ("delete", "zip_bad_name", lambda: zipped(("a\x7f", b"x"))),
    ("long name", "zip_bad_name", lambda: zipped((LONG, b"x"))),
    ("long path", "zip_bad_name", lambda: zipped(("/".join(["ab" * 20] * 30), b"x"))),
    ("deep", "zip_bad_name", lambda: zipped((DEEP, b"x"))),
    ("only a dot", "zip_bad_name", lambda: zipped((".", b"x"), ("a", b""))),
    (
        "link",
        "zip_link",
        lambda: zipped(special("etc", stat.S_IFLNK, b"/etc"), ("etc/passwd", b"x")),
    ),
    (
        "link that stays inside",
        "zip_link",
        lambda: zipped(("a", b""), special("b", stat.S_IFLNK, b"a")),
    ),
    (
        "link that says folder",
        "zip_link",
        lambda: zipped(special("b/", stat.S_IFLNK, b"")),
    ),
    ("device", "zip_special_file", lambda: zipped(special("null", stat.S_IFCHR))),
    ("disk", "zip_special_file", lambda: zipped(special("sda", stat.S_IFBLK))),
    ("pipe", "zip_special_file", lambda: zipped(special("pipe", stat.S_IFIFO))),
    ("socket", "zip_special_file", lambda: zipped(special("sock", stat.S_IFSOCK))),
    ("folder as file", "zip_special_file", lambda: zipped(special("a", stat.S_IFDIR))),
    ("file as folder", "zip_special_file", lambda: zipped(special("a/", stat.S_IFREG))),
    ("encrypted", "zip_encrypted", lambda: with_flag(0x1)),
    ("strongly encrypted", "zip_encrypted", lambda: with_flag(0x41)),
    ("bzip2", "zip_compression", lambda: with_method(12)),
    ("lzma", "zip_compression", lambda: with_method(14)),
    ("deflate64", "zip_compression", lambda: with_method(9)),
    ("unknown method", "zip_compression", lambda: with_method(99)),
    (
        "future version",
        "invalid_zip",
        lambda: patched(6, struct.pack("<H", 200), (("a", b""),)),
    ),
    (
        "twice",
        "zip_duplicate",
        lambda: renamed(b"b.py", b"a.py", ("a.py", b"x"), ("b.py", b"y")),
    ),
    ("twice by a dot", "zip_duplicate", lambda: zipped(("a", b"x"), ("./a", b"y"))),
    ("twice by slashes", "zip_duplicate", lambda: zipped(("d/a", b""), ("d//a", b""))),
    ("file then folder", "zip_duplicate", lambda: zipped(("a", b"x"), ("a/b", b"y"))),
    ("folder then file", "zip_duplicate", lambda: zipped(("a/b", b"y"), ("a", b"x"))),
    (
        "folder entry then file",
        "zip_duplicate",
        lambda: zipped(("a/", b""), ("a", b"")),
    ),
    ("bad CRC", "zip_corrupt", with_broken_content),
    ("broken stream", "zip_corrupt", with_broken_stream),
    ("cut in half", "invalid_zip", cut_in_half),
    ("cut inside a member", "zip_corrupt", cut_inside_a_member),
    ("member beyond the end", "zip_corrupt", with_far_member),
    ("other name inside", "zip_corrupt", with_other_local_name),
]


def extracted(
    raw: bytes, tmp_path: Path, limits: ZipLimits = SMALL
) -> dict[str, bytes]:
    destination = tmp_path / "out"
    extract_zip(io.BytesIO(raw), destination, limits)
    found = (path for path in sorted(destination.rglob("*")) if path.is_file())
    return {str(path.relative_to(destination)): path.read_bytes() for path in found}


@pytest.mark.parametrize(
    ("code", "make"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE]
)
def test_a_hostile_zip_is_refused_and_leaves_nothing(
    code: str, make: Callable[[], bytes], tmp_path: Path
) -> None:
    limits = SMALL
    if code == "zip_too_many_entries":
        limits = ZipLimits(max_entries=20)

    with pytest.raises(Rejected) as caught:
        extract_zip(io.BytesIO(make()), tmp_path / "out", limits)

    assert caught.value.code == code
    assert list(tmp_path.iterdir()) == []


def test_the_corpus_is_large_enough() -> None:
    assert len(HOSTILE) >= 40


def test_the_refusal_names_the_entry(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"'a/\.\./b' in the zip leads out"):
        extract_zip(io.BytesIO(zipped(("a/../b", b""))), tmp_path / "out")


def test_inspection_refuses_a_bad_name_without_unpacking() -> None:
    with pytest.raises(Rejected) as caught:
        inspect_zip(io.BytesIO(zipped(("../a", b""))))

    assert caught.value.code == "zip_outside"


def test_the_declared_sizes_together_are_bounded(tmp_path: Path) -> None:
    raw = zipped(("a", b"\0" * 60_000), ("b", b"\0" * 60_000))

    with pytest.raises(Rejected, match=r"with 'b' the zip unpacks to more"):
        extracted(raw, tmp_path)


def test_bytes_are_counted_as_they_are_written_too(tmp_path: Path) -> None:
    """As if the declared sizes had passed: what they say is never relied upon."""
    (tmp_path / "out").mkdir()
    raw = zipped(("a", b"\0" * 60_000), ("b", b"\0" * 600_000))
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members, _ = checked_members(archive.infolist())

        with pytest.raises(Rejected, match=r"with 'b' the zip unpacks to more"):
            _extract(archive, members, tmp_path / "out", SMALL)

    assert (tmp_path / "out/b").stat().st_size <= SMALL.max_bytes_out


def test_a_member_that_says_less_than_it_holds_writes_no_more_than_that(
    tmp_path: Path,
) -> None:
    with pytest.raises(Rejected):
        extracted(with_small_declared_size(), tmp_path)

    assert not (tmp_path / "out").exists()


def test_an_ordinary_tree_comes_out_as_it_is(tmp_path: Path) -> None:
    raw = zipped(("main.py", b"1"), ("a/", b""), ("a/b.txt", b"2"), ("empty/", b""))

    assert extracted(raw, tmp_path) == {"main.py": b"1", "a/b.txt": b"2"}
    assert (tmp_path / "out/empty").is_dir()


def test_a_single_top_folder_is_unwrapped(tmp_path: Path) -> None:
    raw = zipped(("agent-1.0/", b""), ("agent-1.0/main.py", b"1"))

    report = extract_zip(io.BytesIO(raw), tmp_path / "out")

    assert report.files == ("main.py",)
    assert report.unwrapped == "agent-1.0"
    assert (tmp_path / "out/main.py").read_bytes() == b"1"


def test_the_archivers_leftovers_do_not_keep_a_folder_wrapped(tmp_path: Path) -> None:
    raw = zipped(
        ("agent/main.py", b"1"),
        ("agent/.DS_Store", b"x"),
        (".DS_Store", b"x"),
        ("__MACOSX/agent/._main.py", b"x"),
    )

    assert extracted(raw, tmp_path) == {"main.py": b"1"}


def test_two_top_folders_stay(tmp_path: Path) -> None:
    raw = zipped(("a/x", b"1"), ("b/x", b"2"))

    assert extracted(raw, tmp_path) == {"a/x": b"1", "b/x": b"2"}


@pytest.mark.parametrize(
    "name",
    ["données/été.py", "日本語.py", "a b.py", "-rf", "$(id).py", "ﬁ.txt", "…", "🐍"],
)
def test_odd_names_come_out_as_they_are(name: str, tmp_path: Path) -> None:
    assert extracted(zipped((name, b"1"), ("z", b"")), tmp_path)[name] == b"1"


def test_the_top_folder_as_an_entry_is_harmless(tmp_path: Path) -> None:
    raw = zipped(("./", b""), ("./main.py", b"1"), ("./a.py", b"2"))

    assert extracted(raw, tmp_path) == {"main.py": b"1", "a.py": b"2"}


@pytest.mark.parametrize(
    ("given", "kept"),
    [(0o755, 0o755), (0o4777, 0o755), (0o666, 0o644), (0o000, 0o644), (0o2640, 0o644)],
)
def test_modes_are_made_safe_and_programs_stay_programs(
    given: int, kept: int, tmp_path: Path
) -> None:
    raw = zipped(special("run.sh", stat.S_IFREG, mode=given))

    extract_zip(io.BytesIO(raw), tmp_path / "out")

    assert stat.S_IMODE((tmp_path / "out/run.sh").stat().st_mode) == kept


def test_bytes_before_the_zip_are_no_obstacle(tmp_path: Path) -> None:
    raw = b"#!/usr/bin/env python3\n" + zipped(("__main__.py", b"1"))

    assert extracted(raw, tmp_path) == {"__main__.py": b"1"}


def test_a_zip64_is_read(tmp_path: Path) -> None:
    target = io.BytesIO()
    with (
        zipfile.ZipFile(target, "w") as archive,
        archive.open("main.py", "w", force_zip64=True) as stream,
    ):
        stream.write(b"1")

    assert extracted(target.getvalue(), tmp_path) == {"main.py": b"1"}


def test_a_streamed_zip_with_trailing_sizes_is_read(tmp_path: Path) -> None:
    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.written = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, chunk: object) -> int:
            self.written += bytes(chunk)  # type: ignore[call-overload]
            return len(bytes(chunk))  # type: ignore[call-overload]

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("main.py", b"1")

    assert extracted(bytes(pipe.written), tmp_path) == {"main.py": b"1"}


def test_a_zip_in_a_zip_stays_a_file(tmp_path: Path) -> None:
    inner = zipped(("../evil", b"x"))

    assert extracted(zipped(("inner.zip", inner)), tmp_path) == {"inner.zip": inner}


def test_exactly_the_limits_are_taken(tmp_path: Path) -> None:
    raw = zipped(*((f"f{number}", b"\0" * 50) for number in range(20)))
    limits = ZipLimits(max_bytes_in=len(raw), max_entries=20, max_bytes_out=1000)

    assert len(extracted(raw, tmp_path, limits)) == 20


def test_an_existing_destination_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").write_text("kept")

    with pytest.raises(FileExistsError):
        extract_zip(io.BytesIO(zipped(("main.py", b""))), tmp_path / "out")

    assert (tmp_path / "out/mine").read_text() == "kept"


def test_a_full_disk_is_not_the_owners_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, mode: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("buildqueue.backends.archives.os.fchmod", full)

    with pytest.raises(Unavailable, match="No space left"):
        extract_zip(io.BytesIO(zipped(("main.py", b""))), tmp_path / "out")

    assert not (tmp_path / "out").exists()


def test_one_small_member_can_be_read_by_its_extracted_path() -> None:
    raw = io.BytesIO(zipped(("agent/AgentCard.json", b"{}"), ("agent/main.py", b"")))

    assert read_member(raw, "AgentCard.json") == b"{}"
    assert read_member(raw, "absent.json") is None


def test_a_member_larger_than_expected_is_not_read() -> None:
    raw = io.BytesIO(zipped(("card.json", b"\0" * 5000), ("main.py", b"")))

    with pytest.raises(Rejected):
        read_member(raw, "card.json", max_bytes=100)


def test_a_path_works_as_well_as_a_stream(tmp_path: Path) -> None:
    file = tmp_path / "upload.zip"
    file.write_bytes(zipped(("main.py", b"1")))

    assert inspect_zip(file).files == ("main.py",)
    assert extract_zip(file, tmp_path / "out").declared_bytes == 1
