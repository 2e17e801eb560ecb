"""Are connectors built, told with their tools, refreshed and deleted?"""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from buildqueue.models import (
    BuildJob,
    McpConnector,
    McpConnectorBuild,
    McpConnectorTool,
)

from ...factories import make_connector, make_user
from .conftest import assert_problem
from .roles import GIT, logged_in
from .test_deploying import post
from .zips import make_zip

pytestmark = pytest.mark.django_db
ADDRESS = "/api/mcp/connectors"


@pytest.fixture
def running(owner: AbstractUser) -> McpConnector:
    """Make a connector that runs and offers a tool."""
    made = make_connector(
        str(owner.pk),
        name="calculator",
        build_status="running",
        url="http://127.0.0.1:20001",
        host="machine-1",
        build_secrets_env={"KEY": "hush-1"},
        headers={"Authorization": "hush-2"},
        oauth_client_secret="hush-3",
        last_logs="ready",
    )
    McpConnectorTool.objects.create(
        connector=made, name="add", input_schema={"type": "object"}
    )
    return made


def test_an_upload_is_queued_and_says_where_to_look(as_owner: Client) -> None:
    form = {
        "name": "calculator",
        "source": SimpleUploadedFile("a.zip", make_zip()),
        "env": json.dumps({"KEY": "hush"}),
        "version_tag": "v2",
    }

    response = as_owner.post(f"{ADDRESS}/upload", form)

    assert response.status_code == 202, response.text
    body = response.json()
    assert (body["connector_name"], body["version"]) == ("calculator", "v2")
    assert BuildJob.objects.get().kind == "mcp_server_upload"
    for address in body["links"].values():
        shown = as_owner.get(address)
        assert shown.status_code == 200, address
        assert "hush" not in shown.text


def test_a_repository_becomes_a_connector(as_owner: Client) -> None:
    body = {"name": "calculator", "github_url": GIT, "display_name": "Calculator"}

    response = post(as_owner, f"{ADDRESS}/upload-github", body)

    assert response.status_code == 202, response.text
    assert McpConnector.objects.get().display_name == "Calculator"
    assert BuildJob.objects.get().payload["source"] == {"url": GIT}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"name": "calculator"}, 422, "missing_field"),
        ({"url": GIT}, 422, "missing_field"),
        ({"name": "a", "url": GIT, "ports": [1]}, 422, "unknown_field"),
        ({"name": "a", "url": GIT, "env": {"PATH": "x"}}, 400, "invalid_environment"),
        ({"name": "a", "url": "https://localhost/a"}, 400, "git_host_not_allowed"),
        ({"name": "a", "url": GIT, "version": "-x"}, 400, "invalid_version"),
    ],
)
def test_a_connector_that_cannot_be_is_refused(
    body: dict[str, Any], status: int, code: str, as_owner: Client
) -> None:
    assert_problem(post(as_owner, f"{ADDRESS}/upload-github", body), status, code)

    assert not McpConnector.objects.exists()


def test_a_connector_tells_its_tools_and_no_secret(
    running: McpConnector, as_owner: Client
) -> None:
    response = as_owner.get(f"{ADDRESS}/{running.pk}")

    body = response.json()
    assert (body["status"], body["env"]) == ("running", ["KEY"])
    assert [tool["name"] for tool in body["tools"]] == ["add"]
    assert body["last_logs"] == "ready"
    assert "hush" not in response.text + as_owner.get(ADDRESS).text


def test_connectors_are_listed_without_those_of_others(
    running: McpConnector, as_owner: Client
) -> None:
    make_connector("somebody else")
    make_connector(str(running.owner_id), deleted_at=timezone.now())
    viewer = logged_in(make_user("viewer", "view_mcpconnector"))

    mine = as_owner.get(ADDRESS).json()["connectors"]

    assert [each["name"] for each in mine] == ["calculator"]
    assert len(viewer.get(ADDRESS).json()["connectors"]) == 2


def test_the_builds_of_a_connector_tell_why_they_failed(
    running: McpConnector, as_owner: Client
) -> None:
    McpConnectorBuild.objects.create(
        connector=running,
        owner_id=running.owner_id or "",
        version_tag="1.0.0",
        status="failed",
        error_code="mcp_not_ready",
        error_msg="it does not answer",
        logs="the last line",
        secrets_env={"KEY": "hush"},
        source_token="hush",
        completed_at=timezone.now(),
    )

    response = as_owner.get(f"{ADDRESS}/{running.pk}/builds")

    [build] = response.json()["builds"]
    assert build["error"]["code"] == "mcp_not_ready"
    assert build["logs"] == "the last line"
    assert "hush" not in response.text


def test_a_connector_is_asked_for_its_tools_again(
    running: McpConnector, as_owner: Client
) -> None:
    address = f"{ADDRESS}/{running.pk}/refresh"

    first, second = as_owner.post(address), as_owner.post(address)
    odd = post(as_owner, address, {"force": True})

    assert first.status_code == 202, first.text
    assert first.json()["job_id"] == second.json()["job_id"]
    assert_problem(odd, 422, "unknown_field")


def test_a_connector_that_does_not_run_is_not_asked(
    owner: AbstractUser, as_owner: Client
) -> None:
    pending = make_connector(str(owner.pk))

    response = as_owner.post(f"{ADDRESS}/{pending.pk}/refresh")

    assert_problem(response, 409, "connector_not_running")


def test_a_connector_is_deleted(running: McpConnector, as_owner: Client) -> None:
    response = as_owner.delete(f"{ADDRESS}/{running.pk}?reason=not+needed")

    assert response.status_code == 202, response.text
    assert BuildJob.objects.get().kind == "connector_delete"
    gone = as_owner.get(f"{ADDRESS}/{running.pk}")
    assert_problem(gone, 404, "connector_not_found")
    assert as_owner.get(response.headers["Location"]).status_code == 200


def test_a_connector_that_never_ran_is_deleted_at_once(
    owner: AbstractUser, as_owner: Client
) -> None:
    pending = make_connector(str(owner.pk))

    response = as_owner.delete(f"{ADDRESS}/{pending.pk}")

    assert (response.status_code, response.json()["status"]) == (200, "done")
