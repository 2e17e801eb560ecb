"""Does an agent get its versions by clone, update, rollback and deployment?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart

from buildqueue.builds import secrets
from buildqueue.models import (
    Agent,
    AgentBuild,
    AgentDeployment,
    AgentVersion,
    BuildJob,
)

from ...factories import make_agent, make_build, make_user
from ...support.tars import tarred
from .conftest import UPLOAD, Upload, assert_problem
from .roles import GIT, make_versions, open_to
from .zips import make_zip

pytestmark = pytest.mark.django_db


def post(client: Client, address: str, body: Any, method: str = "post") -> Any:
    return getattr(client, method)(address, body, content_type="application/json")


@pytest.fixture
def agent(owner: AbstractUser) -> Agent:
    """Make an agent with three versions, cloned from a repository."""
    made = make_agent(str(owner.pk), name="greeter", status="running", version="1.0.0")
    make_versions(made)
    build = make_build(made, github_url=GIT, source_ref="main", source_secret=None)
    AgentDeployment.objects.create(
        agent=made, build=build, status="running", host="machine-1"
    )
    return made


def test_an_upload_may_bring_an_environment_and_limits(
    upload: Upload, owner: AbstractUser
) -> None:
    response = upload(
        env=json.dumps({"COLOR": "blue"}),
        replicas="2",
        memory_mb="256",
        cpus="0.5",
        processes="40",
        writable="true",
        writable_path="/data",
    )

    assert response.status_code == 202, response.text
    job, build = BuildJob.objects.get(), AgentBuild.objects.get()
    assert job.payload["spec"] == {
        "replicas": 2,
        "memory_mb": 256,
        "cpus": 0.5,
        "processes": 40,
        "writable": True,
        "writable_path": "/data",
    }
    found = secrets.decrypt_env(str(owner.pk), build.secrets_env)
    assert found == {"COLOR": "blue"}


def test_a_tar_is_as_good_as_a_zip(upload: Upload) -> None:
    tar = tarred({"main.py": "print(1)\n"}).read()

    response = upload(source=SimpleUploadedFile("a.tar.gz", tar))

    assert response.status_code == 202, response.text


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"replicas": "0"}, "invalid_parameter", "replicas"),
        ({"replicas": "17"}, "invalid_parameter", "replicas"),
        ({"replicas": "two"}, "invalid_field", "replicas"),
        ({"cpus": "nan"}, "invalid_field", "cpus"),
        ({"memory_mb": "1"}, "invalid_parameter", "memory_mb"),
        ({"writable": "perhaps"}, "invalid_field", "writable"),
        ({"writable_path": "/../etc"}, "invalid_parameter", "writable_path"),
        ({"env": "{"}, "invalid_field", "env"),
        ({"env": "[" * 100_000}, "invalid_field", "env"),
        ({"env": "[]"}, "invalid_field", "env"),
    ],
)
def test_a_wish_that_cannot_be_fulfilled_is_named(
    fields: dict[str, str], code: str, field: str, upload: Upload
) -> None:
    problem = assert_problem(upload(**fields), 422, code)

    assert field in problem["fields"]
    assert not Agent.objects.exists()


def test_an_environment_that_cannot_be_used_is_refused_without_its_values(
    upload: Upload,
) -> None:
    env = json.dumps({"PORT": "hush-1", "GOOD": "hush-2", "N": {"hush-3": 1}})

    response = upload(env=env)

    problem = assert_problem(response, 400, "invalid_environment")
    assert set(problem["fields"]) == {"PORT", "N"}
    assert "hush" not in response.text


def test_a_clone_is_queued(as_owner: Client, owner: AbstractUser) -> None:
    body = {"name": "greeter", "url": GIT, "branch": "main", "token": "hush"}

    response = post(as_owner, "/api/agents/clone", body | {"ports": [8000]})

    assert response.status_code == 202, response.text
    job, build = BuildJob.objects.get(), AgentBuild.objects.get()
    assert job.kind == "github_clone"
    assert job.payload["source"] == {"url": GIT, "ref": "main"}
    assert job.payload["spec"] == {"ports": [8000]}
    assert secrets.decrypt(str(owner.pk), build.source_token or "") == "hush"
    shown = as_owner.get(response.json()["links"]["build"])
    assert shown.json()["source"] == {
        "type": "git",
        "url": GIT,
        "ref": "main",
        "commit": None,
        "sha256": None,
        "size": None,
    }
    assert "hush" not in response.text + shown.text


def test_a_repository_of_github_is_cloned_by_its_short_name(as_owner: Client) -> None:
    body = {"repository_full_name": "anna/Greeter", "branch": "main"}

    response = post(as_owner, "/api/github/clone", body)

    assert response.status_code == 202, response.text
    assert response.json()["agent_name"] == "greeter"
    source = BuildJob.objects.get().payload["source"]
    assert source == {"url": "https://github.com/anna/Greeter.git", "ref": "main"}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"name": "a"}, 422, "missing_field"),
        ({"name": "a", "url": ""}, 422, "invalid_field"),
        ({"name": "a", "url": "ext::sh -c x"}, 400, "git_url_invalid"),
        ({"name": "a", "url": "--upload-pack=x"}, 400, "git_url_invalid"),
        ({"name": "a", "url": "git@github.com:a/b"}, 400, "git_protocol_not_allowed"),
        ({"name": "a", "url": "https://127.0.0.1/a/b"}, 400, "git_host_not_allowed"),
        (
            {"name": "a", "url": "https://anna:hush@github.com/a/b"},
            400,
            "git_credentials_in_url",
        ),
        ({"name": "a", "url": GIT, "ref": "../x"}, 400, "git_ref_invalid"),
        ({"name": "a", "url": GIT, "commit": "abcdef"}, 400, "git_commit_short"),
        ({"name": "a", "url": GIT, "token": "hush hush"}, 400, "git_token_invalid"),
        ({"name": "a", "url": GIT, "secret": "NONE"}, 400, "secret_missing"),
        ({"name": "a", "url": GIT, "ref": "a", "branch": "b"}, 422, "repeated_field"),
        ({"name": "a", "url": GIT, "replicas": "2"}, 422, "invalid_field"),
        ({"name": "a", "url": GIT, "ports": [70000]}, 400, "invalid_ports"),
        ({"name": "a", "url": GIT, "source": "x"}, 422, "unknown_field"),
        ({"name": "A b", "url": GIT}, 400, "invalid_name"),
    ],
)
def test_a_clone_that_cannot_be_is_refused(
    body: dict[str, Any], status: int, code: str, as_owner: Client
) -> None:
    response = post(as_owner, "/api/agents/clone", body)

    assert_problem(response, status, code)
    assert "hush" not in response.text
    assert not Agent.objects.exists()


@pytest.mark.parametrize("name", ["greeter", "a/b/c", "https://x/y", "a b/c", "../x"])
def test_a_short_name_that_is_none_is_refused(name: str, as_owner: Client) -> None:
    response = post(as_owner, "/api/github/clone", {"repository_full_name": name})

    assert response.status_code in (400, 422), response.text
    assert not Agent.objects.exists()


@pytest.mark.parametrize(
    ("asked", "version"),
    [({}, "1.0.1"), ({"version": "minor"}, "1.1.0"), ({"version": "2.0.0"}, "2.0.0")],
)
def test_an_update_without_a_source_is_of_where_the_agent_came_from(
    asked: dict[str, str], version: str, agent: Agent, as_owner: Client
) -> None:
    response = post(as_owner, f"/api/agents/{agent.pk}/update", asked)

    assert response.status_code == 202, response.text
    assert response.json()["new_version"] == version
    assert response.json()["previous_version"] == "1.0.0"
    assert BuildJob.objects.get().payload["source"] == {"url": GIT, "ref": "main"}


@pytest.mark.parametrize("method", ["put", "post"])
def test_an_update_takes_an_archive_by_form(
    method: str, agent: Agent, with_token: Client, folder: Path
) -> None:
    source = SimpleUploadedFile("a.zip", make_zip())
    form = encode_multipart(BOUNDARY, {"source": source, "version_tag": "minor"})

    response = with_token.generic(
        method.upper(),
        f"/api/agents/{agent.pk}/update",
        form,
        content_type=MULTIPART_CONTENT,
    )

    assert response.status_code == 202, response.text
    assert response.json()["new_version"] == "1.1.0"
    assert "sha256" in BuildJob.objects.get().payload["source"]


def test_a_form_by_put_is_counted_while_it_streams(
    agent: Agent, with_token: Client, folder: Path, settings: Any
) -> None:
    settings.BUILDQUEUE = {**settings.BUILDQUEUE, "UPLOAD_MAX_BYTES": 1000}
    source = SimpleUploadedFile("a.zip", b"x" * 5000)
    form = encode_multipart(BOUNDARY, {"source": source})

    response = with_token.put(
        f"/api/agents/{agent.pk}/update", form, content_type=MULTIPART_CONTENT
    )

    assert_problem(response, 413, "source_too_large")
    assert not BuildJob.objects.exists()


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"ref": "main"}, 422, "missing_field"),
        ({"version": "1.0.0"}, 409, "version_not_newer"),
        ({"version": "newest"}, 400, "invalid_version"),
        ({"source": "a text"}, 422, "invalid_field"),
        ({"name": "other"}, 422, "unknown_field"),
    ],
)
def test_an_update_that_cannot_be_is_refused(
    body: dict[str, Any], status: int, code: str, agent: Agent, as_owner: Client
) -> None:
    response = post(as_owner, f"/api/agents/{agent.pk}/update", body)

    assert_problem(response, status, code)
    assert not BuildJob.objects.exists()


def test_an_uploaded_agent_is_not_updated_from_nowhere(
    upload: Upload, as_owner: Client
) -> None:
    agent_id = upload().json()["agent_id"]

    response = post(as_owner, f"/api/agents/{agent_id}/update", {})

    assert_problem(response, 400, "source_required")


@pytest.mark.parametrize(
    ("verb", "body", "version"),
    [
        ("rollback", {}, "0.9.0"),
        ("rollback", {"target_version": "0.9.0", "reason": "it broke"}, "0.9.0"),
        ("rollback", {"version": "0.8.0"}, "0.8.0"),
        ("deploy", {"version": "0.8.0"}, "0.8.0"),
    ],
)
def test_a_version_that_was_built_is_deployed(
    verb: str, body: dict[str, str], version: str, agent: Agent, as_owner: Client
) -> None:
    response = post(as_owner, f"/api/agents/{agent.pk}/{verb}", body)

    assert response.status_code == 202, response.text
    told = response.json()
    assert (told["new_version"], told["previous_version"]) == (version, "1.0.0")
    assert BuildJob.objects.get().payload["target_version"] == version


@pytest.mark.parametrize(
    ("verb", "body", "status", "code"),
    [
        ("rollback", {"version": "1.0.0"}, 400, "version_not_eligible"),
        ("rollback", {"version": "7.0.0"}, 404, "version_not_found"),
        ("rollback", {"version": "x"}, 400, "invalid_version"),
        ("rollback", {"reason": "x" * 1001}, 422, "invalid_field"),
        ("deploy", {}, 422, "missing_field"),
    ],
)
def test_a_version_that_cannot_be_deployed_is_refused(
    verb: str,
    body: dict[str, str],
    status: int,
    code: str,
    agent: Agent,
    as_owner: Client,
) -> None:
    response = post(as_owner, f"/api/agents/{agent.pk}/{verb}", body)

    assert_problem(response, status, code)
    assert not BuildJob.objects.exists()


def test_who_manages_an_agent_asks_in_their_name_for_its_owner(
    agent: Agent, owner: AbstractUser
) -> None:
    manager = make_user("manager")
    client = open_to(agent, manager, can_manage=True)

    response = post(client, f"/api/agents/{agent.pk}/update", {})

    job = BuildJob.objects.get()
    assert job.owner_id == str(manager.pk)
    assert job.payload["agent_owner_id"] == str(owner.pk)
    assert AgentBuild.objects.get(job=job).triggered_by == str(manager.pk)
    for address in response.json()["links"].values():
        assert client.get(address).status_code == 200, address


@pytest.mark.parametrize(
    "body", [{"env": {"A": "b"}}, {"url": GIT, "secret": "TOKEN"}, {"env": {}}]
)
def test_who_manages_an_agent_touches_no_secret_of_its_owner(
    body: dict[str, Any], agent: Agent, owner: AbstractUser
) -> None:
    secrets.set_secret(str(owner.pk), "TOKEN", "hush")
    client = open_to(agent, make_user("manager"), can_manage=True)

    updated = post(client, f"/api/agents/{agent.pk}/update", body)
    built = post(
        client,
        "/api/builds",
        {"agent_id": str(agent.pk), "url": GIT, "secret": "TOKEN"},
    )

    assert_problem(updated, 403, "forbidden")
    assert_problem(built, 403, "forbidden")
    assert not BuildJob.objects.exists()


def test_a_grant_that_is_taken_back_takes_the_jobs_along(
    agent: Agent, as_owner: Client
) -> None:
    manager = make_user("manager")
    client = open_to(agent, manager, can_manage=True)
    job = post(client, f"/api/agents/{agent.pk}/update", {}).json()["links"]["job"]
    assert client.post(f"{job}/cancel").status_code == 200

    query = {"user": "manager"}
    gone = as_owner.delete(f"/api/agents/{agent.pk}/grants", query_params=query)

    assert gone.status_code == 204
    assert client.get(job).status_code == 200
    assert_problem(client.post(f"{job}/retry"), 403, "forbidden")
    assert_problem(client.get(f"{job}/log"), 403, "forbidden")


@pytest.mark.parametrize("address", [UPLOAD, "/api/mcp/connectors/upload"])
def test_an_upload_is_a_form(address: str, as_owner: Client) -> None:
    response = post(as_owner, address, {"name": "x"})

    assert_problem(response, 415, "unsupported_media_type")


def test_versions_are_told_with_what_the_next_one_would_be(
    agent: Agent, as_owner: Client
) -> None:
    body = as_owner.get(f"/api/agents/{agent.pk}/versions").json()

    told = {each["version"]: each["status"] for each in body["versions"]}
    assert told == {"1.0.0": "active", "0.9.0": "archived", "0.8.0": "pushed"}
    assert body["next"] == {"patch": "1.0.1", "minor": "1.1.0", "major": "2.0.0"}
    assert body["next_page"] is None


def test_versions_are_read_page_by_page(agent: Agent, as_owner: Client) -> None:
    address = f"/api/agents/{agent.pk}/versions"

    first = as_owner.get(address, {"limit": 2}).json()
    rest = as_owner.get(address, {"limit": 2, "after": first["next_page"]}).json()

    seen = [each["version"] for each in first["versions"] + rest["versions"]]
    assert sorted(seen) == ["0.8.0", "0.9.0", "1.0.0"]
    assert rest["next_page"] is None


def test_a_version_is_deleted_unless_it_is_needed(
    agent: Agent, as_owner: Client
) -> None:
    building = AgentVersion.objects.create(
        agent=agent, version="1.2.0", status="building"
    )
    address = f"/api/agents/{agent.pk}/versions"

    assert as_owner.delete(f"{address}/0.9.0").status_code == 204
    assert_problem(as_owner.delete(f"{address}/0.9.0"), 404, "version_not_found")
    for version in ("1.0.0", building.version):
        assert_problem(as_owner.delete(f"{address}/{version}"), 409, "version_in_use")
    post(as_owner, f"/api/agents/{agent.pk}/deploy", {"version": "0.8.0"})
    assert_problem(as_owner.delete(f"{address}/0.8.0"), 409, "version_in_use")
    assert_problem(as_owner.delete(f"{address}/%00"), 404, "version_not_found")
