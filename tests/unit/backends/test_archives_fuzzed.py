"""Does any bytes at all end in anything but a tree, Rejected or Unavailable?"""

from __future__ import annotations

import io
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from buildqueue.backends.archives import ArchiveLimits, extract_archive, read_member
from buildqueue.exceptions import Rejected, Unavailable
from tests.support import tars, zips
from tests.support.tars import tarred
from tests.support.zips import zipped

LIMITS = ArchiveLimits(max_bytes_in=100_000, max_entries=50, max_bytes_out=50_000)
FILES = {"a/main.py": "print()\n" * 9, "a/b/card.json": "{}", "a/é": "x"}
TAR = tars.tar_of(
    tars.pax(tarfile.XGLTYPE, comment="c"),
    tars.folder("a"),
    tars.pax(path="a/main.py", mtime="1.5"),
    tars.entry("cut"),
    tars.long_name("a/" + "b" * 120),
    tars.entry("cut"),
)
SOUND = [
    zipped(FILES).getvalue(),
    zips.zip64(),
    tarred(FILES, "").getvalue(),
    *(tarred(FILES, packing).getvalue() for packing in ("gz", "bz2", "xz")),
    TAR,
    tars.gzipped(TAR),
]

# As many as run in a second or two; the time of one depends on the machine.
fuzzed = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def _unpacked(raw: bytes) -> bool:
    """Tell whether it was taken; whatever is, lies in its folder and in its limits."""
    with tempfile.TemporaryDirectory() as folder:
        destination = Path(folder, "out")
        try:
            report = extract_archive(io.BytesIO(raw), destination, LIMITS)
        except (Rejected, Unavailable):
            assert list(Path(folder).iterdir()) == []
            return False
        files = [path for path in destination.rglob("*") if not path.is_dir()]
        assert [path.name for path in Path(folder).iterdir()] == ["out"]
        assert not any(path.is_symlink() for path in files)
        assert len(files) == len(report.files)
        assert sum(path.stat().st_size for path in files) <= LIMITS.max_bytes_out
        return True


def test_the_sound_ones_are_taken() -> None:
    assert all(_unpacked(raw) for raw in SOUND)


@fuzzed
@given(st.binary(max_size=4000))
@example(b"PK\x05\x06" + bytes(18))
@example(b"\x1f\x8b")
@example(bytes(tars.BLOCK))
def test_any_bytes_end_well(raw: bytes) -> None:
    assert not _unpacked(raw) or raw


@fuzzed
@given(
    st.sampled_from(SOUND),
    st.lists(st.tuples(st.integers(0), st.binary(min_size=1, max_size=8)), max_size=6),
    st.none() | st.integers(0),
)
def test_a_sound_archive_with_other_bytes_ends_well(
    raw: bytes, changes: list[tuple[int, bytes]], cut: int | None
) -> None:
    changed = bytearray(raw)
    for at, value in changes:
        start = at % len(raw)
        changed[start : start + len(value)] = value
    if cut is not None:
        del changed[cut % len(raw) :]

    _unpacked(bytes(changed))


@fuzzed
@given(
    st.lists(
        st.tuples(
            st.integers(0, 11),
            st.integers(0, tars.BLOCK - 1),
            st.binary(min_size=1, max_size=12),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_a_tar_with_other_headers_and_true_checksums_ends_well(
    changes: list[tuple[int, int, bytes]],
) -> None:
    """A checksum that fits lets the change through to what reads the fields."""
    blocks = [TAR[at : at + tars.BLOCK] for at in range(0, len(TAR), tars.BLOCK)]
    for block, at, value in changes:
        number = block % len(blocks)
        end = min(at + len(value), tars.BLOCK)
        blocks[number] = tars.patched(blocks[number], at, value[: end - at])

    _unpacked(b"".join(blocks))


@fuzzed
@given(st.lists(st.text(max_size=40), min_size=1, max_size=6, unique=True))
def test_a_name_is_taken_or_refused_in_zips_and_tars_alike(names: list[str]) -> None:
    names = [name.replace("/", "/x") for name in names if "\0" not in name]
    names = [name for name in names if len(name.encode("utf-8", "replace")) < 100]
    if any("\ud800" <= letter <= "\udfff" for letter in "".join(names)):
        return  # a zip has no bytes for it
    files = {name or "z": "x" for name in names} or {"z": "x"}
    zip_is_taken = _unpacked(zipped(files).getvalue())

    assert _unpacked(tars.tar_of(*(tars.entry(name) for name in files))) is zip_is_taken


@fuzzed
@given(st.binary(max_size=600), st.sampled_from([0, 1, 2]))
def test_any_pax_records_end_well(content: bytes, kind: int) -> None:
    header = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME)[kind]
    raw = tars.tar_of(tars.entry("h", content, kind=header), tars.entry("main.py"))

    _unpacked(raw)


def test_reading_one_member_of_a_cut_archive_ends_well() -> None:
    for sound in SOUND:
        for cut in range(0, len(sound), max(len(sound) // 40, 1)):
            with suppress(Rejected):
                assert read_member(io.BytesIO(sound[:cut]), "b/card.json") in (
                    b"{}",
                    None,
                )
