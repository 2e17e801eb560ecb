"""Is a version built without being deployed, and is a build told with its reason?"""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from buildqueue.models import Agent, AgentBuild, BuildJob

from ...factories import make_agent, make_build, make_job, make_user
from .conftest import assert_problem
from .roles import GIT, logged_in, open_to
from .test_deploying import post
from .zips import make_zip

pytestmark = pytest.mark.django_db
ADDRESS = "/api/builds"


def test_a_name_is_registered_and_built(as_owner: Client, owner: AbstractUser) -> None:
    form = {"name": "greeter", "source": SimpleUploadedFile("a.zip", make_zip())}

    response = as_owner.post(ADDRESS, form)

    assert response.status_code == 202, response.text
    agent = Agent.objects.get()
    assert (agent.name, agent.status) == ("greeter", "registered")
    assert agent.owner_id == str(owner.pk)
    assert BuildJob.objects.get().kind == "standalone_build"


def test_a_repository_is_built_for_an_agent(
    as_owner: Client, owner: AbstractUser
) -> None:
    agent = make_agent(str(owner.pk), status="running")
    body = {"agent_id": str(agent.pk), "github_url": GIT, "version_tag": "3.0.0"}

    response = post(as_owner, ADDRESS, body)

    assert response.status_code == 202, response.text
    assert response.json()["new_version"] == "3.0.0"
    assert Agent.objects.get().status == "running"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"name": "greeter"}, 400, "source_required"),
        ({"url": GIT}, 422, "missing_field"),
        ({"name": "a", "agent_id": "x", "url": GIT}, 422, "invalid_field"),
        ({"agent_id": 5, "url": GIT}, 422, "invalid_field"),
        ({"name": "Bad Name", "url": GIT}, 400, "invalid_name"),
        ({"name": "greeter", "url": GIT, "version": "1"}, 400, "invalid_version"),
        ({"name": "greeter", "url": GIT, "env": {}}, 422, "unknown_field"),
        (
            {"name": "greeter", "url": "https://example.org/a"},
            400,
            "git_host_not_allowed",
        ),
    ],
)
def test_a_build_that_cannot_be_is_refused_and_registers_nothing(
    body: dict[str, Any], status: int, code: str, as_owner: Client
) -> None:
    assert_problem(post(as_owner, ADDRESS, body), status, code)

    assert not Agent.objects.exists()


def make_failed(owner: AbstractUser) -> AgentBuild:
    agent = make_agent(str(owner.pk), name="greeter")
    return make_build(
        agent,
        job=make_job(owner_id="somebody", agent=agent),
        status="failed",
        phase="build",
        error_code="dependency_failed",
        error_msg="no such package",
        hint="look at requirements.txt",
        exit_code=1,
        logs="ERROR: no such package",
        github_url="https://anna:hush-1@github.com/anna/greeter.git?token=hush-2",
        source_ref="main",
        commit_hash="a" * 40,
        source_token="hush-3",
        secrets_env={"TOKEN": "hush-4"},
        completed_at=timezone.now(),
    )


def test_a_build_tells_why_it_failed_and_what_would_help(
    owner: AbstractUser, as_owner: Client
) -> None:
    build = make_failed(owner)

    response = as_owner.get(f"{ADDRESS}/{build.pk}")

    body = response.json()
    assert body["error"]["code"] == "dependency_failed"
    assert (body["hint"], body["exit_code"]) == ("look at requirements.txt", 1)
    assert body["logs"] == "ERROR: no such package"
    assert body["source"]["url"] == "https://github.com/anna/greeter.git"
    assert (body["source"]["ref"], body["source"]["commit"]) == ("main", "a" * 40)
    assert "hush" not in response.text


def test_who_may_not_read_logs_is_not_shown_the_last_lines(
    owner: AbstractUser,
) -> None:
    build = make_failed(owner)
    address = f"{ADDRESS}/{build.pk}"
    viewer = logged_in(make_user("viewer", "view_agentbuild"))
    guest = open_to(build.agent, make_user("guest"))
    manager = open_to(build.agent, make_user("manager"), can_manage=True)

    assert viewer.get(address).json()["logs"] is None
    assert guest.get(address).json()["logs"]
    assert "job" not in guest.get(address).json()["links"]
    assert "job" in manager.get(address).json()["links"]


def test_builds_are_listed_and_filtered(owner: AbstractUser, as_owner: Client) -> None:
    failed = make_failed(owner)
    other = make_build(make_agent(str(owner.pk)))
    make_build(make_agent("somebody else"))

    every = as_owner.get(ADDRESS).json()["builds"]
    of_one = as_owner.get(ADDRESS, {"agent": str(failed.agent_id)}).json()["builds"]
    queued = as_owner.get(ADDRESS, {"status": "queued"}).json()["builds"]

    assert {each["id"] for each in every} == {str(failed.pk), str(other.pk)}
    assert [each["id"] for each in of_one] == [str(failed.pk)]
    assert of_one[0]["logs"] is None
    assert [each["id"] for each in queued] == [str(other.pk)]


def test_builds_are_read_page_by_page(owner: AbstractUser, as_owner: Client) -> None:
    agent = make_agent(str(owner.pk))
    made = {str(make_build(agent).pk) for _ in range(5)}

    seen: list[str] = []
    query: dict[str, str] = {"limit": "2"}
    while True:
        page = as_owner.get(ADDRESS, query).json()
        seen += [build["id"] for build in page["builds"]]
        if page["next"] is None:
            break
        query["after"] = page["next"]

    assert len(seen) == 5
    assert set(seen) == made


def test_a_guest_lists_the_builds_of_the_agent_alone(owner: AbstractUser) -> None:
    build = make_failed(owner)
    guest = open_to(build.agent, make_user("guest"))
    stranger = logged_in(make_user("stranger"))
    query = {"agent": str(build.agent_id)}

    assert guest.get(ADDRESS).json()["builds"] == []
    assert len(guest.get(ADDRESS, query).json()["builds"]) == 1
    assert_problem(stranger.get(ADDRESS, query), 404, "agent_not_found")


@pytest.mark.parametrize(
    "query", [{"status": "gone"}, {"agent": "x"}, {"after": "x"}, {"limit": "201"}]
)
def test_a_bad_query_for_builds_is_refused(
    query: dict[str, str], as_owner: Client
) -> None:
    problem = assert_problem(as_owner.get(ADDRESS, query), 422, "invalid_parameter")

    assert set(problem["fields"]) == set(query)


def test_listing_builds_takes_a_query_for_all_of_them(
    owner: AbstractUser, as_owner: Client, django_assert_max_num_queries: Any
) -> None:
    for _ in range(10):
        make_build(make_agent(str(owner.pk)))
    as_owner.get(ADDRESS)

    with django_assert_max_num_queries(6):  # session, user, its permissions, builds
        assert len(as_owner.get(ADDRESS).json()["builds"]) == 10
