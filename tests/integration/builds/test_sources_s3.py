"""Do sources in an S3-compatible storage reach every host, and is trouble told apart?"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings

from buildqueue.builds import sources
from buildqueue.builds.payloads import StoredSource
from buildqueue.exceptions import Rejected, Unavailable
from buildqueue.models import Source
from tests.support.races import race
from tests.support.s3 import ALIAS, S3Server, s3_server

NOW = timedelta(seconds=-60)  # everything is older than this
CONTENT = b"PK\x03\x04" + b"content of a source\n" * 1000

pytestmark = pytest.mark.usefixtures("committed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A bucket and the server that has it."""

    server: S3Server
    name: str

    def keys(self) -> list[str]:
        """Return what it holds."""
        found = self.server.client().list_objects_v2(Bucket=self.name)
        return [each["Key"] for each in found.get("Contents", [])]

    def put(self, key: str, content: bytes) -> None:
        """Write an object behind the storage's back."""
        self.server.client().put_object(Bucket=self.name, Key=key, Body=content)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Run one server for the tests of this module."""
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def bucket(server: S3Server, settings: Any, tmp_path: Path) -> Bucket:
    """Return a bucket in which sources are kept from now on."""
    return _used(server, server.make_bucket(), settings, tmp_path / "first-host")


def _used(server: S3Server, name: str, settings: Any, host: Path) -> Bucket:
    settings.STORAGES = {**django_settings.STORAGES, **server.storages(name)}
    _work_on(host, settings)
    return Bucket(server=server, name=name)


def _work_on(host: Path, settings: Any) -> None:
    settings.BUILDQUEUE = {
        **django_settings.BUILDQUEUE,
        "SOURCE_STORAGE": ALIAS,
        "DATA_DIR": host,
    }


def _keep(
    folder: Path, content: bytes = CONTENT, name: str = "spooled"
) -> StoredSource:
    path = folder / name
    path.unlink(missing_ok=True)
    return sources.keep(sources.spool(io.BytesIO(content), path))


@pytest.mark.parametrize("magic", [b"PK\x03\x04", b"\x1f\x8b\x08"])
def test_a_source_is_fetched_on_another_host(
    bucket: Bucket, tmp_path: Path, settings: Any, magic: bytes
) -> None:
    kept = _keep(tmp_path, magic + CONTENT)
    assert not (tmp_path / "first-host").exists()
    _work_on(tmp_path / "second-host", settings)

    sources.fetch(kept, tmp_path / "fetched")

    assert (tmp_path / "fetched").read_bytes() == magic + CONTENT
    assert bucket.keys() == [kept.key]
    assert sources.exists(kept.key)
    assert not sources.exists(kept.key + "x")


def test_a_source_that_is_there_is_not_sent_again(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _keep(tmp_path)
    sent: list[str] = []
    place = type(sources.storage())
    monkeypatch.setattr(place, "_save", lambda self, name, content: sent.append(name))

    assert _keep(tmp_path) == first
    assert sent == []


def test_an_object_that_is_not_whole_is_replaced(
    bucket: Bucket, tmp_path: Path
) -> None:
    kept = _keep(tmp_path)
    bucket.put(kept.key, CONTENT[:100])

    assert _keep(tmp_path) == kept
    sources.fetch(kept, tmp_path / "fetched")


@pytest.mark.parametrize(
    "damaged", [CONTENT[:-1], CONTENT + b"x", CONTENT[:-1] + b"x", b""]
)
def test_a_damaged_object_is_refused_and_can_be_uploaded_again(
    bucket: Bucket, tmp_path: Path, damaged: bytes
) -> None:
    kept = _keep(tmp_path)
    bucket.put(kept.key, damaged)

    with pytest.raises(Rejected) as refused:
        sources.fetch(kept, tmp_path / "fetched")

    assert refused.value.code == "source_damaged"
    assert not (tmp_path / "fetched").exists()
    _keep(tmp_path)
    sources.fetch(kept, tmp_path / "fetched")


def test_a_missing_object_is_refused(bucket: Bucket, tmp_path: Path) -> None:
    kept = _keep(tmp_path)
    sources.delete(kept.key)

    with pytest.raises(Rejected) as refused:
        sources.fetch(kept, tmp_path / "fetched")

    assert refused.value.code == "source_missing"
    assert not Source.objects.exists()


def test_a_bucket_that_is_away_may_come_back(
    server: S3Server, settings: Any, tmp_path: Path
) -> None:
    _used(server, "bucket-that-nobody-made", settings, tmp_path)
    kept = StoredSource(
        key="sources/00/00.zip", sha256=hashlib.sha256(b"").hexdigest(), size=0
    )

    with pytest.raises(Unavailable, match="cannot be read") as unread:
        sources.fetch(kept, tmp_path / "fetched")
    with pytest.raises(Unavailable, match="could not be stored"):
        _keep(tmp_path)
    with pytest.raises(Unavailable):
        sources.prune(retention=NOW, orphan_age=NOW)

    assert unread.value.code == "source_unreadable"
    assert not (tmp_path / "fetched").exists()


def test_a_server_that_is_away_may_come_back(settings: Any, tmp_path: Path) -> None:
    with s3_server(tmp_path) as dying:
        _used(dying, dying.make_bucket(), settings, tmp_path)
        kept = _keep(tmp_path)
        dying.end()

        with pytest.raises(Unavailable) as unread:
            sources.fetch(kept, tmp_path / "fetched")
        with pytest.raises(Unavailable) as unstored:
            _keep(tmp_path, b"another")
        with pytest.raises(Unavailable):
            sources.exists(kept.key)
        with pytest.raises(Unavailable):
            sources.prune(retention=NOW, orphan_age=NOW)

    codes = (unread.value.code, unstored.value.code)
    assert codes == ("source_unreadable", "source_not_stored")
    assert Source.objects.count() == 2, "both rows are there for the next who tries"


def test_old_sources_and_orphans_are_pruned_and_strangers_left(
    bucket: Bucket, tmp_path: Path
) -> None:
    unused = _keep(tmp_path)
    orphan = f"sources/ab/ab{'0' * 62}.zip"
    strange = [
        "sources/readme.txt",
        "sources/ab/notes.txt",
        f"other/ab/ab{'0' * 62}.zip",
    ]
    for key in [orphan, *strange]:
        bucket.put(key, b"x")

    assert sources.prune() == 0, "they are young"
    assert sources.prune(retention=NOW) == 1
    assert sorted(bucket.keys()) == sorted([orphan, *strange])
    assert sources.prune(orphan_age=NOW) == 1
    assert sorted(bucket.keys()) == sorted(strange)
    assert not sources.exists(unused.key)
    assert not Source.objects.exists()


def test_two_hosts_store_the_same_source_at_once(
    bucket: Bucket, tmp_path: Path
) -> None:
    kept = race(2, lambda number: _keep(tmp_path, name=f"spooled-{number}"))

    assert kept[0] == kept[1]
    assert bucket.keys() == [kept[0].key]
    sources.fetch(kept[0], tmp_path / "fetched")
