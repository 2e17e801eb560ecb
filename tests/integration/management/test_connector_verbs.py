"""Can connectors be built, looked at, refreshed and deleted from a shell?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser

from buildqueue.builds import secrets
from buildqueue.models import (
    BuildJob,
    McpConnector,
    McpConnectorBuild,
    McpConnectorTool,
)
from tests.factories import make_connector
from tests.support.commands import answered, refusal, run

from .conftest import Typing

SECRET = "xyzzy-plugh"


@pytest.fixture
def search(anna: AbstractUser) -> McpConnector:
    made = make_connector(
        str(anna.pk),
        name="search",
        build_status="running",
        url="http://127.0.0.1:1",
        host="here",
    )
    McpConnectorTool.objects.create(
        connector=made, name="find", description="Finds \x1b[2Jthings"
    )
    return made


def test_a_connector_is_uploaded_in_the_owners_name(
    anna: AbstractUser, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", SECRET)

    told = answered(
        *("connector", "upload", "search", str(folder), "--owner", "anna"),
        *("--version", "2.0", "--display-name", "Search", "--env", "MY_KEY"),
    )

    connector, build = McpConnector.objects.get(), McpConnectorBuild.objects.get()
    job = BuildJob.objects.get()
    assert told == {
        "connector_id": str(connector.pk),
        "connector_name": "search",
        "job_ids": [str(job.pk)],
        "job_id": str(job.pk),
        "status": "queued",
        "build_id": str(build.pk),
        "version": "2.0",
    }
    assert (connector.owner_id, connector.display_name) == (str(anna.pk), "Search")
    assert secrets.decrypt_env(str(anna.pk), build.secrets_env) == {"MY_KEY": SECRET}


def test_a_connector_is_cloned(anna: AbstractUser, piped: Typing) -> None:
    piped(SECRET)

    run(
        *("connector", "clone", "search", "--owner", "anna", "--token-stdin"),
        *("--git", "https://github.com/team/search"),
    )

    build = McpConnectorBuild.objects.get()
    assert build.github_url == "https://github.com/team/search"
    assert secrets.decrypt(str(anna.pk), build.source_token or "") == SECRET


def test_connectors_are_listed_and_shown_with_their_tools(
    search: McpConnector,
) -> None:
    make_connector("other", name="other")

    listed = answered("connector", "list", "--owner", "anna")["connectors"]
    shown = answered("connector", "show", "anna/search")
    tools = answered("connector", "tools", "search")["tools"]
    text = "".join(
        run("connector", *v)
        for v in (["list"], ["show", "search"], ["tools", "search"])
    )

    assert [each["name"] for each in listed] == ["search"]
    assert (shown["status"], [tool["name"] for tool in shown["tools"]]) == (
        "running",
        ["find"],
    )
    assert [tool["name"] for tool in tools] == ["find"]
    assert "Finds things" in text
    assert "\x1b" not in text


def test_tools_are_asked_for_again(search: McpConnector) -> None:
    told = answered("connector", "refresh", "search")

    assert told["job_id"] == str(BuildJob.objects.get().pk)
    assert BuildJob.objects.get().kind == "connector_refresh"


def test_a_connector_is_deleted_when_that_is_meant(
    search: McpConnector, piped: Typing
) -> None:
    error = refusal("connector", "delete", "search")

    told = answered("connector", "delete", "search", "--yes", "--reason", "old")

    search.refresh_from_db()
    assert (error.returncode, "--yes missing" in str(error)) == (2, True)
    assert search.deleted_at is not None
    assert told["connector_id"] == str(search.pk)


def test_a_name_that_cannot_be_is_refused(anna: AbstractUser, folder: Path) -> None:
    given: Any = ("connector", "upload", "No Name", str(folder), "--owner", "anna")

    assert "cannot be deployed" in str(refusal(*given))
    assert not McpConnector.objects.exists()
