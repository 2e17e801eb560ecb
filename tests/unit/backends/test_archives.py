"""What comes out of a sound archive, and what is true while and after it does?

Zips and tars alike; what is refused stands in `test_archive_corpus`.
"""

from __future__ import annotations

import io
import stat
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from buildqueue.backends.archivenames import Entry, Member
from buildqueue.backends.archives import (
    ArchiveLimits,
    _extract,
    extract_archive,
    inspect_archive,
    read_member,
)
from buildqueue.backends.archivestreams import CHUNK, Unpacked
from buildqueue.exceptions import Rejected, Unavailable
from tests.support import tars, zips
from tests.support.tars import tarred
from tests.support.zips import special, zip_of, zipped

LIMITS = ArchiveLimits(max_bytes_in=200_000, max_entries=20, max_bytes_out=100_000)

Maker = Callable[[dict[str, str]], io.BytesIO]

both = pytest.mark.parametrize(
    "make",
    [zipped, tarred, lambda files: tarred(files, "xz"), lambda f: tarred(f, "bz2")],
    ids=["zip", "tar.gz", "tar.xz", "tar.bz2"],
)


def extracted(
    raw: io.BytesIO, tmp_path: Path, limits: ArchiveLimits = LIMITS
) -> dict[str, bytes]:
    destination = tmp_path / "out"
    extract_archive(raw, destination, limits)
    found = (path for path in sorted(destination.rglob("*")) if path.is_file())
    return {str(path.relative_to(destination)): path.read_bytes() for path in found}


@both
def test_an_ordinary_tree_comes_out_as_it_is(make: Maker, tmp_path: Path) -> None:
    raw = make({"main.py": "1", "a/b.txt": "2", "a/c/d": "", "e": "x" * 70_000})

    assert extracted(raw, tmp_path) == {
        "main.py": b"1",
        "a/b.txt": b"2",
        "a/c/d": b"",
        "e": b"x" * 70_000,
    }


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (zipped().getvalue(), "zip"),
        (tars.tar_of(tars.entry("main.py")), "tar"),
        (tarred().getvalue(), "tar.gz"),
        (tarred(packing="bz2").getvalue(), "tar.bz2"),
        (tarred(packing="xz").getvalue(), "tar.xz"),
    ],
)
def test_what_it_is_is_told_by_its_bytes_not_by_its_name(
    raw: bytes, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "upload.rar"
    file.write_bytes(raw)

    report = inspect_archive(file)

    assert (report.format, report.files) == (name, ("main.py",))


def test_an_empty_folder_comes_out_too(tmp_path: Path) -> None:
    for name, raw in (
        ("a", zip_of(("main.py", b""), ("empty/", b""))),
        ("b", tars.tar_of(tars.entry("main.py"), tars.folder("empty"))),
    ):
        extract_archive(io.BytesIO(raw), tmp_path / name)

        assert (tmp_path / name / "empty").is_dir()


@both
def test_a_single_top_folder_is_unwrapped(make: Maker, tmp_path: Path) -> None:
    raw = make({"agent-1.0/main.py": "1", "agent-1.0/a/b": "2"})

    report = extract_archive(raw, tmp_path / "out")

    assert report.files == ("a/b", "main.py")
    assert report.unwrapped == "agent-1.0"
    assert (tmp_path / "out/main.py").read_bytes() == b"1"


@both
def test_only_one_folder_is_unwrapped(make: Maker, tmp_path: Path) -> None:
    assert extracted(make({"a/b/main.py": "1"}), tmp_path) == {"b/main.py": b"1"}


@both
def test_the_archivers_leftovers_do_not_keep_a_folder_wrapped(
    make: Maker, tmp_path: Path
) -> None:
    raw = make(
        {
            "agent/main.py": "1",
            "agent/.DS_Store": "x",
            "agent/.git/HEAD": "x",
            ".DS_Store": "x",
            "._agent": "x",
            "__MACOSX/agent/._main.py": "x",
        }
    )

    assert extracted(raw, tmp_path) == {"main.py": b"1"}


@both
def test_two_top_folders_stay(make: Maker, tmp_path: Path) -> None:
    raw = make({"a/x": "1", "b/x": "2"})

    assert extracted(raw, tmp_path) == {"a/x": b"1", "b/x": b"2"}


@both
@pytest.mark.parametrize(
    "name",
    ["données/été.py", "日本語.py", "a b.py", "-rf", "$(id).py", "ﬁ.txt", "…", "🐍"],
)
def test_odd_names_come_out_as_they_are(make: Maker, name: str, tmp_path: Path) -> None:
    assert extracted(make({name: "1", "z": ""}), tmp_path)[name] == b"1"


@both
def test_the_top_folder_as_an_entry_is_harmless(make: Maker, tmp_path: Path) -> None:
    raw = make({"./main.py": "1", "./a.py": "2"})

    assert extracted(raw, tmp_path) == {"main.py": b"1", "a.py": b"2"}


@pytest.mark.parametrize(
    ("given", "kept"),
    [(0o755, 0o755), (0o4777, 0o755), (0o666, 0o644), (0o000, 0o644), (0o2640, 0o644)],
)
def test_modes_are_made_safe_and_programs_stay_programs(
    given: int, kept: int, tmp_path: Path
) -> None:
    for name, raw in (
        ("zip", zip_of(special("run.sh", stat.S_IFREG, mode=given))),
        ("tar", tars.tar_of(tars.entry("run.sh", mode=given))),
    ):
        extract_archive(io.BytesIO(raw), tmp_path / name)

        assert stat.S_IMODE((tmp_path / name / "run.sh").stat().st_mode) == kept


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

    assert extracted(io.BytesIO(pipe.written), tmp_path) == {"main.py": b"1"}


def test_a_zip_in_an_archive_stays_a_file(tmp_path: Path) -> None:
    inner = zip_of(("../evil", b"x"))
    raw = zip_of(("inner.zip", inner))

    assert extracted(io.BytesIO(raw), tmp_path) == {"inner.zip": inner}


@both
def test_exactly_the_limits_are_taken(make: Maker, tmp_path: Path) -> None:
    raw = make({f"f{number}": "." * 50 for number in range(20)})
    limits = ArchiveLimits(
        max_bytes_in=len(raw.getvalue()), max_entries=20, max_bytes_out=1000
    )

    assert len(extracted(raw, tmp_path, limits)) == 20


@both
def test_one_byte_or_entry_more_is_not(make: Maker) -> None:
    raw = make({f"f{number}": "." * 50 for number in range(20)})
    size = len(raw.getvalue())

    for limits, code in (
        (ArchiveLimits(max_bytes_in=size - 1), "archive_too_large"),
        (ArchiveLimits(max_entries=19), "archive_too_many_entries"),
        (ArchiveLimits(max_bytes_out=999), "archive_bomb"),
    ):
        with pytest.raises(Rejected) as caught:
            inspect_archive(raw, limits)
        assert caught.value.code == code


@both
def test_the_refusal_names_the_entry(make: Maker, tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"'a/\.\./b' in the archive leads out"):
        extract_archive(make({"a/../b": ""}), tmp_path / "out")


@both
def test_the_declared_sizes_together_are_bounded(make: Maker) -> None:
    raw = make({"a": "." * 60_000, "b": "." * 60_000})

    with pytest.raises(Rejected, match=r"with 'b' the archive unpacks to more"):
        inspect_archive(raw, LIMITS)


class _Liar:
    """An archive whose one entry never ends, whatever it said of its size."""

    format = "zip"

    def entries(self) -> Iterator[Entry]:
        yield Entry(name="a", index=0, is_folder=False, is_program=False, size=1)

    def contents(
        self, members: Sequence[Member]
    ) -> Iterator[tuple[Member, Iterator[bytes]]]:
        for member in members:
            yield member, iter(lambda: b"\0" * 1000, None)


def test_bytes_are_counted_as_they_are_written_too(tmp_path: Path) -> None:
    liar = _Liar()
    members = [Member(entry=entry, parts=("a",)) for entry in liar.entries()]

    with pytest.raises(Rejected, match=r"with 'a' the archive unpacks to more"):
        _extract(liar, members, tmp_path, LIMITS)

    assert (tmp_path / "a").stat().st_size <= LIMITS.max_bytes_out


def test_a_stream_is_unpacked_no_further_than_its_measure() -> None:
    taken = []

    def endless() -> Iterator[bytes]:
        while True:
            taken.append(1)
            yield bytes(1000)

    with pytest.raises(Rejected) as caught:
        Unpacked(endless(), most=10_000).skip(10**12)

    assert caught.value.code == "archive_bomb"
    assert len(taken) == 11


@pytest.mark.parametrize("packing", ["", "gz", "bz2", "xz"])
def test_a_tar_is_read_in_pieces(packing: str, tmp_path: Path) -> None:
    class Watched(io.BytesIO):
        largest = 0

        def read(self, size: int | None = -1, /) -> bytes:
            piece = super().read(size)
            self.largest = max(self.largest, len(piece))
            return piece

    content = "".join(map(str, range(150_000)))
    raw = Watched(tarred({"a": content, "b": content}, packing).getvalue())

    extract_archive(raw, tmp_path / "out")

    assert 0 < raw.largest <= CHUNK
    assert (tmp_path / "out/b").read_text() == content


def test_an_existing_destination_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").write_text("kept")

    with pytest.raises(FileExistsError):
        extract_archive(zipped(), tmp_path / "out")

    assert (tmp_path / "out/mine").read_text() == "kept"


def test_a_link_in_the_destinations_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(FileExistsError):
        extract_archive(tarred(), tmp_path / "out")

    assert list((tmp_path / "elsewhere").iterdir()) == []


@both
def test_a_full_disk_is_not_the_owners_fault(
    make: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, mode: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("buildqueue.backends.archives.os.fchmod", full)

    with pytest.raises(Unavailable, match="No space left") as caught:
        extract_archive(make({"main.py": ""}), tmp_path / "out")

    assert caught.value.code == "archive_not_extracted"
    assert not (tmp_path / "out").exists()


def test_a_missing_place_is_not_the_owners_fault(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        extract_archive(zipped(), tmp_path / "absent" / "out")

    assert caught.value.code == "archive_not_extracted"


class _Broken(io.BytesIO):
    """A file on a disk that fails after its first reads."""

    reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        if self.reads > 2:
            raise OSError(5, "Input/output error")
        return super().read(size)


@both
def test_a_failing_disk_under_the_archive_is_not_the_owners_fault(
    make: Maker, tmp_path: Path
) -> None:
    raw = make({f"f{number}": "x" for number in range(5)}).getvalue()

    with pytest.raises(Unavailable, match="Input/output error") as caught:
        extract_archive(_Broken(raw), tmp_path / "out")

    assert caught.value.code == "archive_unreadable"
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_gone_is_not_the_owners_fault(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        inspect_archive(tmp_path / "absent.zip")

    assert caught.value.code == "archive_unreadable"


@both
def test_one_small_member_can_be_read_by_its_extracted_path(make: Maker) -> None:
    raw = make({"agent/AgentCard.json": "{}", "agent/main.py": "1" * 999})

    assert read_member(raw, "AgentCard.json") == b"{}"
    assert read_member(raw, "main.py") == b"1" * 999
    assert read_member(raw, "absent.json") is None


@both
def test_a_member_larger_than_expected_is_not_read(make: Maker) -> None:
    raw = make({"card.json": "." * 5000, "main.py": ""})

    with pytest.raises(Rejected) as caught:
        read_member(raw, "card.json", max_bytes=100)

    assert caught.value.code == "archive_bomb"


def test_a_tar_is_read_from_its_start_wherever_the_file_stands(tmp_path: Path) -> None:
    raw = tarred()
    raw.seek(7)

    assert extracted(raw, tmp_path) == {"main.py": zips.AGENT["main.py"].encode()}
