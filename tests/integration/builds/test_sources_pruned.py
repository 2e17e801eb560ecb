"""Does every source go that nobody needs, and none that somebody may?"""

from __future__ import annotations

import io
import os
import threading
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import transaction
from django.utils import timezone

from buildqueue.builds import sourceplace, sources
from buildqueue.builds.payloads import StoredSource
from buildqueue.models import (
    Agent,
    AgentBuild,
    AgentVersion,
    McpConnector,
    McpConnectorBuild,
    Source,
)
from buildqueue.states import BuildStatus, JobStatus, VersionStatus
from tests.factories import make_agent, make_build, make_connector, make_job
from tests.support.races import PATIENCE, race, somebody_waits
from tests.support.waiting import wait_until

LONG_AGO = timezone.now() - timedelta(days=100)

pytestmark = pytest.mark.usefixtures("committed")


class Killed(BaseException):
    """Stands for the death of the process: nothing may catch it and go on."""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, settings: Any) -> None:
    settings.BUILDQUEUE = {**django_settings.BUILDQUEUE, "DATA_DIR": tmp_path / "data"}


@pytest.fixture
def keep(tmp_path: Path) -> Callable[..., StoredSource]:
    """Return how a source is stored, long ago."""

    def store(content: bytes | None = None, *, age: Any = LONG_AGO) -> StoredSource:
        path = tmp_path / uuid.uuid4().hex
        content = content or uuid.uuid4().bytes
        kept = sources.keep(sources.spool(io.BytesIO(content), path))
        Source.objects.filter(pk=kept.key).update(used_at=age)
        return kept

    return store


def _file_of(kept: StoredSource) -> Path:
    return Path(sources.storage().path(kept.key))


def _ended(
    agent: Agent, status: str = BuildStatus.SUCCESS, **values: Any
) -> AgentBuild:
    return make_build(agent, status=status, completed_at=timezone.now(), **values)


def _version(agent: Agent, kept: StoredSource, **values: Any) -> AgentVersion:
    """Make a version that was built from the source."""
    build = _ended(agent, source_key=kept.key)
    values.setdefault("version", f"1.0.{AgentVersion.objects.count()}")
    return AgentVersion.objects.create(agent=agent, build=build, **values)


def test_only_what_nobody_used_for_long_goes(keep: Any) -> None:
    days = [13, 15]
    young, old = (keep(age=timezone.now() - timedelta(days=d)) for d in days)

    assert sources.prune() == 1

    assert _file_of(young).exists()
    assert not _file_of(old).exists()
    assert [row.key for row in Source.objects.all()] == [young.key]


def test_how_long_that_is_can_be_set(keep: Any, settings: Any) -> None:
    settings.BUILDQUEUE = {**settings.BUILDQUEUE, "SOURCE_RETENTION_DAYS": 200}
    keep()

    assert sources.prune() == 0


@pytest.mark.parametrize(
    ("status", "kept"),
    [
        (JobStatus.PENDING, True),
        (JobStatus.PAUSED, True),
        (JobStatus.IN_PROGRESS, True),
        (JobStatus.DONE, False),
        (JobStatus.FAILED, False),
    ],
)
def test_the_source_of_an_open_job_stays(keep: Any, status: str, kept: bool) -> None:
    source, agent = keep(), make_agent()
    _ended(agent, BuildStatus.FAILED, source_key=source.key, job=make_job(status))

    sources.prune()

    assert sources.exists(source.key) is kept


@pytest.mark.parametrize("status", [BuildStatus.QUEUED, BuildStatus.BUILDING])
def test_the_source_of_a_build_that_has_not_ended_stays(keep: Any, status: str) -> None:
    source = keep()
    make_build(make_agent(), status=status, source_key=source.key)

    assert sources.prune() == 0


@pytest.mark.parametrize(
    ("status", "can_rollback", "kept"),
    [
        (VersionStatus.BUILDING, False, True),
        (VersionStatus.PUSHED, False, True),
        (VersionStatus.ACTIVE, False, True),
        (VersionStatus.ARCHIVED, True, True),
        (VersionStatus.ARCHIVED, False, False),
    ],
)
@pytest.mark.parametrize("deleted", [False, True])
def test_the_source_of_a_version_that_may_run_again_stays_while_its_agent_lives(
    keep: Any, status: str, can_rollback: bool, kept: bool, deleted: bool
) -> None:
    agent, source = make_agent(), keep()
    _version(agent, source, status=status, can_rollback=can_rollback)
    if deleted:
        Agent.objects.update(deleted_at=timezone.now())

    sources.prune()

    assert sources.exists(source.key) is (kept and not deleted)


def test_the_source_of_a_later_build_of_a_needed_version_stays(keep: Any) -> None:
    """A version points to the build that made it; one that was built again points back."""
    agent, first, again = make_agent(), keep(), keep()
    version = _version(agent, first, status=VersionStatus.ACTIVE)
    _ended(agent, source_key=again.key, version=version)

    assert sources.prune() == 0


def test_the_source_of_a_failed_build_goes_when_it_is_old(keep: Any) -> None:
    agent = make_agent()
    old, young = keep(), keep(age=timezone.now())
    for source in (old, young):
        _ended(agent, BuildStatus.FAILED, source_key=source.key)

    assert sources.prune() == 1
    assert sources.exists(young.key)


def test_a_source_that_one_of_two_needs_stays(keep: Any) -> None:
    source, agent = keep(), make_agent()
    _ended(agent, BuildStatus.FAILED, source_key=source.key)
    _version(agent, source, status=VersionStatus.ACTIVE)

    assert sources.prune() == 0


def _built(connector: McpConnector, kept: StoredSource, status: str, age: int) -> None:
    McpConnectorBuild.objects.create(
        connector=connector,
        owner_id="1",
        version_tag="1.0.0",
        source_key=kept.key,
        status=status,
        created_at=timezone.now() - timedelta(days=age),
        completed_at=timezone.now() if status in {"success", "failed"} else None,
    )


def test_what_a_connector_runs_and_was_built_of_last_stays(keep: Any) -> None:
    connector, gone = make_connector(), make_connector()
    first, runs, failed, last, of_gone = (keep() for _ in range(5))
    _built(connector, first, "success", 9)
    _built(connector, runs, "success", 8)
    _built(connector, failed, "failed", 7)
    _built(connector, last, "pending", 6)
    _built(gone, of_gone, "success", 5)
    McpConnector.objects.filter(pk=gone.pk).update(deleted_at=timezone.now())

    assert sources.prune() == 2

    left = set(Source.objects.values_list("key", flat=True))
    assert left == {runs.key, failed.key, last.key}


def test_so_many_go_at_once_the_oldest_first(keep: Any) -> None:
    kept = [keep(age=LONG_AGO - timedelta(days=n)) for n in range(5)]

    assert sources.prune(limit=3) == 3
    assert {row.key for row in Source.objects.all()} == {k.key for k in kept[:2]}
    assert sources.prune(limit=3) == 2


def test_a_pruner_killed_between_file_and_row_is_finished_by_the_next(
    keep: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = keep()
    delete = sourceplace.PrivateFolder.delete

    def dying(self: Any, name: str) -> None:
        delete(self, name)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(sourceplace.PrivateFolder, "delete", dying)
        with pytest.raises(Killed):
            sources.prune()
    assert not _file_of(source).exists()
    assert Source.objects.exists()

    assert sources.prune() == 1
    assert not Source.objects.exists()


def test_a_source_that_is_stored_again_after_a_killed_pruner_is_there(
    keep: Any,
) -> None:
    source = keep(b"content")
    _file_of(source).unlink()

    assert keep(b"content") == source
    assert _file_of(source).exists()


def test_a_source_that_somebody_is_just_taking_up_is_left(keep: Any) -> None:
    source = keep()

    with transaction.atomic():
        assert sources.renew(source.key)
        assert race(1, lambda _: sources.prune()) == [0]

    assert sources.exists(source.key)


def test_a_source_that_came_to_be_used_after_it_was_found_is_left(
    keep: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = keep(age=LONG_AGO - timedelta(days=1)), keep()
    delete = sourceplace.PrivateFolder.delete

    def meanwhile(self: Any, name: str) -> None:
        race(1, lambda _: sources.renew(second.key))
        delete(self, name)

    monkeypatch.setattr(sourceplace.PrivateFolder, "delete", meanwhile)

    assert sources.prune() == 1
    assert not sources.exists(first.key)
    assert sources.exists(second.key)


def test_pruners_and_writers_at_once_leave_every_kept_source_there(
    keep: Any, tmp_path: Path
) -> None:
    contents = [f"content {number}".encode() for number in range(8)]
    for content in contents:
        keep(content)

    def act(number: int) -> list[StoredSource]:
        if number < 2:
            sources.prune()
            return []
        spooled = [
            sources.spool(io.BytesIO(each), tmp_path / uuid.uuid4().hex)
            for each in contents
        ]
        return [sources.keep(each) for each in spooled]

    kept = [each for found in race(4, act) for each in found]

    assert len(kept) == 2 * len(contents)
    for number, each in enumerate(kept):
        sources.fetch(each, tmp_path / f"fetched-{number}")


def _orphan(keep: Any, *, old: bool = True) -> StoredSource:
    source: StoredSource = keep()
    Source.objects.filter(pk=source.key).delete()
    if old:
        os.utime(_file_of(source), (0, 0))
    return source


def test_an_old_file_without_a_row_goes_and_a_young_one_stays(keep: Any) -> None:
    old, young = _orphan(keep), _orphan(keep, old=False)

    assert sources.prune() == 1
    assert not _file_of(old).exists()
    assert _file_of(young).exists()
    assert not Source.objects.exists()


def test_a_needed_file_whose_row_was_lost_gets_it_again(keep: Any) -> None:
    source = _orphan(keep)
    make_build(make_agent(), source_key=source.key)

    assert sources.prune() == 0

    row = Source.objects.get()
    assert (row.key, row.sha256, row.size) == (
        source.key,
        source.sha256,
        source.size,
    )
    assert _file_of(source).exists()


def test_a_file_whose_row_is_about_to_be_committed_is_not_taken_for_an_orphan(
    keep: Any, tmp_path: Path
) -> None:
    source = _orphan(keep)
    copy = tmp_path / "copy"
    copy.write_bytes(_file_of(source).read_bytes())
    spooled = sources.Spooled(path=copy, sha256=source.sha256, size=source.size)
    taken_up = threading.Event()

    def act(number: int) -> int:
        if number:
            assert taken_up.wait(PATIENCE)
            return sources.prune()
        with transaction.atomic():
            sources.keep(spooled)
            taken_up.set()
            wait_until(somebody_waits, message="the pruner does not come")
        return 0

    assert race(2, act) == [0, 0]
    assert _file_of(source).exists()
    assert Source.objects.get().key == source.key


def test_what_a_writer_left_beside_goes_and_what_is_not_ours_stays(keep: Any) -> None:
    folder = _file_of(keep(age=timezone.now())).parent
    root = folder.parent
    sha256 = folder.name + "0" * 62
    left = [folder / f"{sha256}.zip.{uuid.uuid4().hex}", folder / f"{sha256}_aB3.zip"]
    strange = [folder / "notes.txt", root / f"{sha256}.zip", root / "blobs.zip"]
    for path in [*left, *strange]:
        path.write_bytes(b"x")
        os.utime(path, (0, 0))

    assert sources.prune() == 2
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in strange)


def test_pruning_where_nothing_was_ever_stored_is_fine(tmp_path: Path) -> None:
    assert sources.prune() == 0
    assert not (tmp_path / "data").exists()
