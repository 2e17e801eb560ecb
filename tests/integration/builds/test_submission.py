"""What is refused at the door, what is queued, and what is left behind?"""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections, transaction

from buildqueue import conf
from buildqueue.builds import sources, submission
from buildqueue.builds.retirement import delete_agent
from buildqueue.exceptions import Refused, Unavailable
from buildqueue.models import Agent, AgentBuild, AgentVersion, BuildJob
from tests.support.killing import killed_before
from tests.support.zips import zipped

from .conftest import ANNA, World, agent_of, upload

pytestmark = pytest.mark.usefixtures("world")


def _stored() -> list[Path]:
    root = conf.get().data_path() / "sources"
    return [path for path in root.rglob("*") if path.is_file()]


def _assert_nothing_is_left() -> None:
    assert _stored() == []
    for model in (Agent, AgentBuild, AgentVersion, BuildJob):
        assert not model._default_manager.exists()


def _refused(**options: Any) -> Refused:
    with pytest.raises(Refused) as refused:
        upload(**options)
    return refused.value


def test_an_upload_is_queued_with_all_its_rows() -> None:
    submitted = upload(version="1.0.0")

    job, build, agent = submitted.job, submitted.build, submitted.agent
    assert (job.kind, job.status, build.status) == ("upload", "pending", "queued")
    assert agent.status == "deploying"
    assert (job.agent_id, build.agent_id, build.job_id) == (agent.pk, agent.pk, job.pk)
    assert job.serial_key == f"agent:{agent.pk}"
    assert job.requires is None
    assert (build.source_key, build.source_sha256) == (
        job.payload["source"]["key"],
        job.payload["source"]["sha256"],
    )
    assert (submitted.version, submitted.previous_version) == ("1.0.0", None)
    assert AgentVersion.objects.get(agent=agent).status == "building"


def test_the_stored_source_is_private() -> None:
    upload()

    (file,) = _stored()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Echo",
        "-echo",
        "echo-",
        ".echo",
        "a b",
        "a/b",
        "../a",
        "écho",
        "a\n",
        "x" * 64,
        "a\x00b",
        "'; drop table",
    ],
)
def test_a_name_that_could_not_be_deployed_is_refused(name: str) -> None:
    refused = _refused(name=name)

    assert (refused.code, refused.status) == ("invalid_name", 400)
    assert "63 lower-case letters" in refused.fields["name"]
    _assert_nothing_is_left()


@pytest.mark.parametrize("name", ["a", "echo", "my-agent.v2_b", "0", "x" * 63])
def test_a_name_that_can_be_deployed_is_taken(name: str) -> None:
    assert upload(name=name).agent.name == name


@pytest.mark.parametrize("ports", [[0], [65536], [-1], [8000] * 17])
def test_impossible_ports_are_refused(ports: list[int]) -> None:
    assert _refused(ports=ports).code == "invalid_ports"
    _assert_nothing_is_left()


def test_a_malformed_version_is_refused() -> None:
    assert _refused(version="1.0").code == "invalid_version"
    _assert_nothing_is_left()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "invalid_archive"),
        (b"this is no zip", "invalid_archive"),
        (zipped({}).getvalue(), "archive_empty"),
        (zipped({"../../etc/passwd": "x"}).getvalue(), "archive_unsafe_name"),
        (zipped({"/etc/passwd": "x"}).getvalue(), "archive_unsafe_name"),
        (zipped({"readme.txt": "hello"}).getvalue(), "no_dockerfile"),
        (
            zipped({"Dockerfile": "FROM scratch", "main.py": ""}).getvalue(),
            "needs_container_backend",
        ),
        (
            zipped({"Dockerfile": "CMD x", "main.py": ""}).getvalue(),
            "dockerfile_invalid",
        ),
    ],
)
def test_a_source_that_cannot_be_built_is_refused(content: bytes, code: str) -> None:
    with pytest.raises(Refused) as refused:
        submission.submit_upload(
            owner_id="1", caller=ANNA, name="echo", source=io.BytesIO(content)
        )

    assert (refused.value.code, refused.value.status) == (code, 400)
    assert refused.value.fields["source"]
    _assert_nothing_is_left()


def test_a_source_that_is_too_large_is_refused(settings: Any) -> None:
    settings.BUILDQUEUE = {**settings.BUILDQUEUE, "UPLOAD_MAX_BYTES": 50}

    refused = _refused()

    assert (refused.code, refused.status) == ("source_too_large", 413)
    _assert_nothing_is_left()


def test_too_many_files_are_refused(settings: Any) -> None:
    settings.BUILDQUEUE = {**settings.BUILDQUEUE, "ARCHIVE_MAX_ENTRIES": 2}
    files = {f"{number}.txt": "" for number in range(3)}

    assert _refused(files=files).code == "archive_too_many_entries"
    _assert_nothing_is_left()


def test_no_temporary_folder_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()

    upload("one")
    _refused(files={"Dockerfile": "CMD x"})

    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_taken_version_is_told_with_the_next_free_one() -> None:
    upload(version="1.4.0", program="# one\n")
    upload(version="1.9.2", program="# two\n")

    refused = _refused(version="1.4.0")

    assert (refused.code, refused.status) == ("version_taken", 409)
    assert refused.extra == {"next_version": "1.9.3"}
    assert BuildJob.objects.count() == 2


def test_versions_without_a_wish_come_from_the_source_or_follow_the_newest() -> None:
    card = {"AgentCard.json": '{"version": "v2.0.0"}'}

    chosen = [
        upload().version,
        upload().version,
        upload(files=card).version,
        upload(files=card).version,
        upload().version,
    ]

    assert chosen == ["1.0.0", "1.0.1", "2.0.0", "2.0.1", "2.0.2"]


def test_a_rollback_of_the_caller_leaves_no_row() -> None:
    class Changed(Exception):
        pass

    def change_of_mind() -> None:
        with transaction.atomic():
            upload()
            raise Changed

    with pytest.raises(Changed):
        change_of_mind()

    assert not BuildJob.objects.exists()
    assert not Agent.objects.exists()


def test_a_storage_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    place = sources.storage()

    def broken(name: str, content: Any) -> str:
        raise OSError("no space left")

    monkeypatch.setattr(place, "_save", broken)
    monkeypatch.setattr(sources, "storage", lambda: place)

    with pytest.raises(Unavailable):
        upload()

    _assert_nothing_is_left()


def test_an_upload_to_a_deleted_name_makes_a_new_agent() -> None:
    first = upload()
    delete_agent(first.agent, actor=ANNA)

    second = upload()

    assert second.agent.pk != first.agent.pk
    assert second.version == "1.0.0"


def test_the_same_name_of_the_same_owner_is_the_same_agent() -> None:
    assert upload().agent.pk == upload().agent.pk


def test_of_two_uploads_of_one_version_one_is_refused() -> None:
    """Both start before either commits; the second waits and then sees the first."""
    begun, answers = threading.Barrier(2), []

    def submit() -> None:
        try:
            begun.wait(timeout=60)
            answers.append(upload(version="1.0.0").version)
        except Refused as refused:
            answers.append(f"{refused.status} {refused.extra['next_version']}")
        finally:
            connections.close_all()

    threads = [threading.Thread(target=submit) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(answers) == ["1.0.0", "409 1.0.1"]
    assert BuildJob.objects.count() == AgentBuild.objects.count() == 1
    assert len(_stored()) == 1


def test_a_new_upload_keeps_the_agent_deploying_until_it_is_done(world: World) -> None:
    first, second = upload(version="1.0.0"), upload(version="1.1.0")

    world.run_next()
    assert agent_of(first).status == "deploying"
    assert agent_of(first).version == "1.0.0"
    world.work()

    assert agent_of(second).status == "running"
    assert agent_of(second).version == "1.1.0"
    assert connection.get_autocommit()


def test_a_submission_killed_anywhere_leaves_all_its_rows_or_none() -> None:
    models = (Agent, AgentBuild, AgentVersion, BuildJob)
    for number in range(1, 200):
        killed = killed_before(number, upload)
        rows = {model._default_manager.count() for model in models}
        assert rows in ({0}, {1}), f"half done when killed before statement {number}"
        if not killed or rows == {1}:
            break

    assert rows == {1}
    # What was stored and never named is an orphan, for the duty that prunes them.
    assert len(_stored()) >= 1
    named = BuildJob.objects.get().payload["source"]["key"]
    assert any(str(path).endswith(named) for path in _stored())
