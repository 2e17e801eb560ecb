"""Are rows built that another system wrote, with its own columns and payload alone?"""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from django.db import connection

from buildqueue.builds import secrets
from buildqueue.builds.lifecycle.connectoropening import TOKEN
from buildqueue.models import BuildJob, McpConnector, McpConnectorBuild
from tests.factories import make_connector
from tests.integration.builds.conftest import World
from tests.support.zips import zipped

from .conftest import PROGRAM
from .test_upload import environment_in

INSERT = """
INSERT INTO buildqueue_buildjob (connector_id, owner_id, payload)
VALUES (%s, %s, %s) RETURNING id
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    file = tmp_path / "upload.zip"
    file.write_bytes(zipped({"main.py": PROGRAM}).read())
    return file


def _insert(
    connector: McpConnector, source: object, **changed: object
) -> tuple[BuildJob, McpConnectorBuild]:
    build = McpConnectorBuild.objects.create(
        connector=connector, owner_id="1", version_tag="v1"
    )
    payload = {
        "kind": "McpServerUpload",
        "build_id": str(build.pk),
        "connector_id": str(connector.pk),
        "owner_id": "1",
        "name": connector.name,
        "source": source,
        "image_tag": f"nasiko/mcp-{connector.name}:v1",
        "env": {},
        **changed,
    }
    with connection.cursor() as cursor:
        cursor.execute(INSERT, [connector.pk, "1", json.dumps(payload)])
        return BuildJob.objects.get(pk=cursor.fetchone()[0]), build


def _zip(path: Path) -> dict[str, object]:
    return {"Zip": {"zip_path": str(path)}}


def test_a_raw_row_is_built_and_deployed(world: World, archive: Path) -> None:
    connector = make_connector()
    job, build = _insert(connector, _zip(archive))

    world.work()

    for row in (job, build, connector):
        row.refresh_from_db()
    assert (job.status, job.error_msg, build.status) == ("done", None, "success")
    assert build.job_id == job.pk
    assert (connector.build_status, connector.is_active) == ("running", True)
    assert connector.container_image_tag is not None
    assert f"/v1-{build.pk.hex[:12]}@" in connector.container_image_tag
    assert TOKEN in connector.build_secrets_env


def test_its_environment_is_ciphertext_of_the_owners_and_is_kept(
    world: World, archive: Path
) -> None:
    connector = make_connector()
    env = {"API_KEY": secrets.encrypt("1", "plain-secret")}
    _insert(connector, _zip(archive), env=env)

    world.work()

    connector.refresh_from_db()
    assert environment_in(world, connector)["API_KEY"] == "plain-secret"
    assert connector.build_secrets_env["API_KEY"] == env["API_KEY"]


@pytest.mark.parametrize(
    "ciphertext", ["AAAA", secrets.encrypt("2", "of another owner")]
)
def test_an_environment_that_cannot_be_read_fails_the_build(
    world: World, archive: Path, ciphertext: str
) -> None:
    connector = make_connector()
    job, build = _insert(connector, _zip(archive), env={"API_KEY": ciphertext})

    world.work()

    for row in (job, build, connector):
        row.refresh_from_db()
    assert (job.status, job.error_code) == ("failed", "secret_unreadable")
    assert (build.status, build.error_code) == ("failed", "secret_unreadable")
    assert connector.build_status == "failed"
    assert world.runtime.workloads() == []


def test_a_zip_that_is_not_here_fails_the_build(world: World, tmp_path: Path) -> None:
    connector = make_connector()
    job, _ = _insert(connector, _zip(tmp_path / "gone.zip"))

    world.work()

    job.refresh_from_db()
    assert (job.status, job.error_code) == ("failed", "source_missing")


def test_a_payload_of_another_connector_touches_neither(
    world: World, archive: Path
) -> None:
    connector, other = make_connector(), make_connector()
    job, _ = _insert(connector, _zip(archive), connector_id=str(other.pk))

    world.work()

    for row in (job, connector, other):
        row.refresh_from_db()
    assert (job.status, job.error_code) == ("failed", "wrong_target")
    assert (connector.build_status, other.build_status) == ("failed", "pending")
    assert other.build_secrets_env == {}


def test_a_build_that_is_not_there_is_no_reason_to_build(
    world: World, archive: Path
) -> None:
    connector = make_connector()
    job, _ = _insert(connector, _zip(archive), build_id=str(uuid.uuid4()))

    world.work()

    job.refresh_from_db()
    assert (job.status, job.error_code) == ("failed", "build_missing")
    assert world.builder.requests == []
