"""What is refused before a connector is built, and what is queued otherwise?"""

from __future__ import annotations

import io
import threading
from typing import Any

import pytest
from django.db import connections, transaction

from buildqueue.builds import sources
from buildqueue.builds.submission import GitRequest
from buildqueue.exceptions import Refused
from buildqueue.models import BuildJob, McpConnector, McpConnectorBuild
from tests.factories import make_connector
from tests.integration.builds.conftest import World
from tests.support.zips import zipped

from .conftest import build_of, connector_of, submit


def refusal(**options: Any) -> Refused:
    with pytest.raises(Refused) as refused:
        submit(**options)
    assert not McpConnector.objects.filter(name="tools").exists()
    assert not McpConnectorBuild.objects.exists()
    assert not BuildJob.objects.exists()
    return refused.value


def test_what_is_queued_names_its_target_and_waits_for_others_of_it(
    world: World,
) -> None:
    submitted = submit(version="2.0")

    job, build = submitted.job, submitted.build
    assert (job.kind, job.agent_id) == ("mcp_server_upload", None)
    assert job.connector_id == submitted.connector.pk
    assert job.serial_key == f"connector:{submitted.connector.pk}"
    assert job.requires is None
    assert set(job.payload) == {
        "kind",
        "version",
        "build_id",
        "connector_id",
        "owner_id",
        "name",
        "version_tag",
        "source",
    }
    assert (build.job_id, build.status, build.version_tag) == (job.pk, "pending", "2.0")
    assert sources.exists(build.source_key or "")
    assert build.source_sha256 == job.payload["source"]["sha256"]


def test_a_repository_is_named_and_its_token_stands_encrypted_on_the_build(
    world: World,
) -> None:
    submitted = submit(
        source=None,
        git=GitRequest(
            url="https://github.com/anna/tools.git", ref="main", token="plain-token"
        ),
    )

    build = build_of(submitted)
    assert build.github_url == "https://github.com/anna/tools.git"
    assert (build.source_ref, build.source_key) == ("main", None)
    assert build.source_token
    assert "plain-token" not in build.source_token
    assert "plain-token" not in str(submitted.job.payload)


@pytest.mark.parametrize("name", ["", "Tools", "a b", "../x", "-a", "a" * 64])
def test_a_name_that_could_not_be_deployed_is_refused(world: World, name: str) -> None:
    assert refusal(name=name).code == "invalid_name"


@pytest.mark.parametrize("version", ["", "-1", "a b", "../x", "1" * 65, "1.0\n"])
def test_a_version_that_names_no_folder_is_refused(world: World, version: str) -> None:
    assert refusal(version=version).code == "invalid_version"


def test_neither_or_both_kinds_of_source_are_refused(world: World) -> None:
    git = GitRequest(url="https://github.com/anna/tools.git")

    assert refusal(source=None).code == "source_required"
    assert refusal(git=git).code == "source_required"


def test_a_source_that_cannot_be_built_is_refused(world: World) -> None:
    assert refusal(source=io.BytesIO(b"no archive")).status == 400
    assert refusal(source=zipped({"read.me": "x"})).code == "no_dockerfile"


def test_a_repository_elsewhere_is_refused(world: World) -> None:
    git = GitRequest(url="https://example.org/anna/tools.git")

    assert refusal(source=None, git=git).code == "git_host_not_allowed"


@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "A B", "NASIKO_INTERNAL_TOKEN"])
def test_a_variable_that_is_not_the_owners_to_set_is_refused(
    world: World, name: str
) -> None:
    assert refusal(env={name: "x"}).code == "invalid_environment"


def test_the_name_of_a_connector_that_is_run_elsewhere_is_taken(world: World) -> None:
    external = make_connector(
        name="tools",
        source_kind="external_url",
        build_status=None,
        url="https://example.org/mcp",
    )

    with pytest.raises(Refused) as refused:
        submit()

    assert (refused.value.code, refused.value.status) == ("connector_exists", 409)
    external.refresh_from_db()
    assert external.build_status is None
    assert not BuildJob.objects.exists()


def test_two_owners_may_use_one_name(world: World) -> None:
    assert submit(owner="1").connector.pk != submit(owner="2").connector.pk


def test_the_callers_transaction_takes_it_all_back(world: World) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():  # noqa: PT012
        submit()
        raise ZeroDivisionError

    assert not McpConnector.objects.exists()
    assert not BuildJob.objects.exists()


def test_two_first_uploads_of_one_name_make_one_connector(world: World) -> None:
    start, made = threading.Barrier(2), list[Any]()

    def ask() -> None:
        try:
            start.wait(timeout=60)
            made.append(submit().connector.pk)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(made) == 2
    assert len(set(made)) == 1
    assert McpConnectorBuild.objects.count() == 2


def test_an_upload_shows_what_a_first_one_is_called(world: World) -> None:
    submit(display_name="Old")

    assert connector_of(submit(display_name="New")).display_name == "New"
    assert connector_of(submit()).display_name == "New"
