"""Is a source stored once, whole, and found again by whoever is to build it?"""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage
from django.db import transaction
from django.utils import timezone

from buildqueue.builds import sourceplace, sources
from buildqueue.builds.payloads import StoredSource
from buildqueue.exceptions import Refused, Rejected, Unavailable
from buildqueue.models import Source
from tests.support.processes import environment
from tests.support.races import race

CONTENT = b"PK\x03\x04" + b"content of a source\n" * 1000
LONG_AGO = timezone.now() - timedelta(days=100)

pytestmark = pytest.mark.usefixtures("committed")


class Key:
    """A source that another system stored, as its payload names it."""

    def __init__(self, key: str) -> None:
        self.key = key


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, settings: Any) -> None:
    settings.BUILDQUEUE = {**django_settings.BUILDQUEUE, "DATA_DIR": tmp_path / "data"}


@pytest.fixture
def plain(tmp_path: Path, settings: Any) -> Path:
    """Have sources kept by Django's own storage of files, which never replaces one."""
    folder = tmp_path / "plain"
    backend = "django.core.files.storage.FileSystemStorage"
    alias = {"BACKEND": backend, "OPTIONS": {"location": str(folder)}}
    settings.STORAGES = {**django_settings.STORAGES, "plain": alias}
    settings.BUILDQUEUE = {**settings.BUILDQUEUE, "SOURCE_STORAGE": "plain"}
    return folder


def _spool(folder: Path, content: bytes = CONTENT) -> sources.Spooled:
    return sources.spool(io.BytesIO(content), folder / uuid.uuid4().hex)


def _keep(folder: Path, content: bytes = CONTENT) -> StoredSource:
    return sources.keep(_spool(folder, content))


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _file_of(kept: StoredSource) -> Path:
    return Path(sources.storage().path(kept.key))


@pytest.mark.parametrize(
    ("content", "ending"),
    [(CONTENT, "zip"), (b"", "zip"), (b"\x1f\x8b\x08" + CONTENT, "tar.gz")],
)
def test_a_source_lies_under_its_checksum_and_is_fetched_whole(
    tmp_path: Path, content: bytes, ending: str
) -> None:
    kept = _keep(tmp_path, content)

    sources.fetch(kept, tmp_path / "fetched")

    row = Source.objects.get()
    assert kept.key == f"sources/{kept.sha256[:2]}/{kept.sha256}.{ending}"
    assert (row.key, row.sha256, row.size) == (kept.key, kept.sha256, kept.size)
    assert (tmp_path / "fetched").read_bytes() == content


def test_sources_are_for_this_account_alone(tmp_path: Path) -> None:
    file = _file_of(_keep(tmp_path))

    root = tmp_path / "data" / "sources"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert file.is_relative_to(root)


def test_a_source_that_is_there_is_used_and_counts_as_used_now(tmp_path: Path) -> None:
    first = _keep(tmp_path)
    written = _file_of(first).stat().st_ino
    Source.objects.update(used_at=LONG_AGO)

    assert _keep(tmp_path) == first

    assert _file_of(first).stat().st_ino == written
    assert Source.objects.get().used_at > LONG_AGO


@pytest.mark.parametrize("use", ["fetch", "renew"])
def test_whoever_reads_a_source_keeps_it_from_the_pruner(
    tmp_path: Path, use: str
) -> None:
    kept = _keep(tmp_path)
    Source.objects.update(used_at=LONG_AGO)

    if use == "fetch":
        sources.fetch(kept, tmp_path / "fetched")
    else:
        assert sources.renew(kept.key)

    assert sources.prune() == 0
    assert Source.objects.get().used_at > LONG_AGO


def test_a_file_that_is_not_whole_is_replaced(tmp_path: Path) -> None:
    kept = _keep(tmp_path)
    _file_of(kept).write_bytes(CONTENT[:100])

    assert _keep(tmp_path) == kept
    sources.fetch(kept, tmp_path / "fetched")


@pytest.mark.parametrize(
    "damaged", [CONTENT[:-1], CONTENT + b"x", CONTENT[:-1] + b"x", b""]
)
def test_a_damaged_source_is_refused_and_can_be_uploaded_again(
    tmp_path: Path, damaged: bytes
) -> None:
    kept = _keep(tmp_path)
    _file_of(kept).write_bytes(damaged)

    with pytest.raises(Rejected) as refused:
        sources.fetch(kept, tmp_path / "fetched")

    assert refused.value.code == "source_damaged"
    assert not (tmp_path / "fetched").exists()
    _keep(tmp_path)
    sources.fetch(kept, tmp_path / "fetched")


@pytest.mark.parametrize(
    "key", ["sources/00/none.zip", "none.zip", "../escape", "/etc/passwd", "a/../../b"]
)
def test_a_key_that_names_no_source_is_refused(tmp_path: Path, key: str) -> None:
    _keep(tmp_path)

    for source in (Key(key), StoredSource(key=key, sha256="0" * 64, size=5)):
        with pytest.raises(Rejected) as refused:
            sources.fetch(source, tmp_path / "fetched")  # type: ignore[arg-type]
        assert refused.value.code == "source_missing"

    assert not (tmp_path / "fetched").exists()
    assert not sources.exists(key)
    assert not sources.renew(key)


def test_a_source_without_a_checksum_is_fetched_up_to_the_limit(
    tmp_path: Path, settings: Any
) -> None:
    file = tmp_path / "data" / "sources" / "blobs" / "theirs.zip"
    file.parent.mkdir(parents=True)
    file.write_bytes(CONTENT)

    sources.fetch(Key("blobs/theirs.zip"), tmp_path / "fetched")  # type: ignore[arg-type]
    settings.BUILDQUEUE = {**settings.BUILDQUEUE, "UPLOAD_MAX_BYTES": len(CONTENT) - 1}
    with pytest.raises(Rejected) as refused:
        sources.fetch(Key("blobs/theirs.zip"), tmp_path / "second")  # type: ignore[arg-type]

    assert (tmp_path / "fetched").read_bytes() == CONTENT
    assert refused.value.code == "source_too_large"
    assert not (tmp_path / "second").exists()


def test_a_source_that_is_too_large_is_refused_while_it_comes(
    tmp_path: Path, settings: Any
) -> None:
    settings.BUILDQUEUE = {**settings.BUILDQUEUE, "UPLOAD_MAX_BYTES": 100}

    with pytest.raises(Refused) as refused:
        _spool(tmp_path)

    assert (refused.value.code, refused.value.status) == ("source_too_large", 413)


def test_a_storage_that_cannot_be_written_may_be_some_day(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")

    with pytest.raises(Unavailable) as failed:
        _keep(tmp_path)

    assert failed.value.code == "source_not_stored"


def test_the_row_is_committed_before_the_file_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[int]] = []

    def save(place: Any, name: str, content: Any) -> str:
        seen.append(race(1, lambda _: Source.objects.count()))
        raise OSError("no space left")

    monkeypatch.setattr(sourceplace.PrivateFolder, "_save", save)
    with pytest.raises(Unavailable):
        _keep(tmp_path)

    assert seen == [[1]]
    assert Source.objects.count() == 1


def test_in_a_callers_transaction_the_row_comes_and_goes_with_it(
    tmp_path: Path,
) -> None:
    with transaction.atomic():
        kept = _keep(tmp_path)
        outside = race(1, lambda _: Source.objects.count())
        transaction.set_rollback(True)

    assert outside == [0]
    assert not Source.objects.exists()
    assert sources.exists(kept.key), "an orphan, for the pruner"


def test_many_who_store_the_same_at_once_all_succeed(tmp_path: Path) -> None:
    kept = race(4, lambda _: _keep(tmp_path))

    assert len(set(kept)) == 1
    assert _files(tmp_path / "data") == [_file_of(kept[0])]
    sources.fetch(kept[0], tmp_path / "fetched")


def test_many_who_store_the_same_in_a_plain_storage_at_once_all_succeed(
    tmp_path: Path, plain: Path
) -> None:
    kept = race(4, lambda _: _keep(tmp_path))

    assert len(set(kept)) == 1
    assert _files(plain) == [plain / kept[0].key]
    sources.fetch(kept[0], tmp_path / "fetched")


def test_a_plain_storage_that_saved_elsewhere_keeps_what_was_there(
    tmp_path: Path, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another's file comes between the look and the save."""
    save, spooled = FileSystemStorage._save, _spool(tmp_path)
    calls: list[str] = []

    def interrupted(self: Any, name: str, content: Any) -> str:
        calls.append(name)
        if len(calls) == 1:
            save(self, name, ContentFile(CONTENT))
        return save(self, name, content)

    monkeypatch.setattr(FileSystemStorage, "_save", interrupted)
    kept = sources.keep(spooled)

    assert _files(plain) == [plain / kept.key]
    assert len(calls) == 1
    sources.fetch(kept, tmp_path / "fetched")


def test_a_file_that_is_not_whole_is_replaced_in_a_plain_storage_too(
    tmp_path: Path, plain: Path
) -> None:
    kept = _keep(tmp_path)
    (plain / kept.key).write_bytes(b"half")

    assert _keep(tmp_path) == kept
    assert _files(plain) == [plain / kept.key]
    sources.fetch(kept, tmp_path / "fetched")


DYING = """
import os, sys
from pathlib import Path
import django
django.setup()
from buildqueue.builds import sources, sourceplace
sourceplace.os.fsync = lambda number: os.kill(os.getpid(), 9)
with open(sys.argv[1], "rb") as file:
    sources.keep(sources.spool(file, Path(sys.argv[2])))
"""


def test_a_writer_killed_in_the_midst_leaves_nothing_under_the_name(
    tmp_path: Path, settings: Any
) -> None:
    (tmp_path / "source").write_bytes(CONTENT)
    data = {"BUILDQUEUE": {"DATA_DIR": str(tmp_path / "data")}}
    died = subprocess.run(
        [sys.executable, "-c", DYING, tmp_path / "source", tmp_path / "spooled"],
        env=environment(**data),
        capture_output=True,
    )
    assert died.returncode == -9, died.stderr
    [row] = Source.objects.all()
    [beside] = _files(tmp_path / "data")
    assert not sources.exists(row.key)

    kept = _keep(tmp_path)
    sources.fetch(kept, tmp_path / "fetched")
    os.utime(beside, (0, 0))

    assert kept.key == row.key
    assert sources.prune() == 1
    assert _files(tmp_path / "data") == [_file_of(kept)]
