"""Does everybody see and change what is theirs, and nothing else? Every URL, every role."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.test import Client

from buildqueue.api.routing import api

from ...factories import make_agent, make_build, make_connector, make_job, make_user
from .conftest import UPLOAD, assert_problem
from .roles import ROLES, Things, logged_in, make_things, state

pytestmark = pytest.mark.django_db


@pytest.fixture
def things(owner: AbstractUser) -> Things:
    return make_things(owner)


OWNERS = ("owner", "owner's token")
# Who sees the agent: each may what those before may, by grants.
NEAR = ("passer-by", "guest", "manager")
# what it is -> what who comes nearer is answered: the first who may, and what before
GRANTED: dict[str, tuple[str | None, dict[str, int]]] = {
    "the agent": ("passer-by", {}),
    "history": ("guest", {"passer-by": 403}),
    "a build": ("guest", {"passer-by": 404}),
    "what runs": ("manager", {"passer-by": 403, "guest": 403}),
    "a job": ("manager", {"passer-by": 404, "guest": 404}),
    "a job's verb": (None, {"passer-by": 404, "guest": 404, "manager": 403}),
    "the owner's": (None, {"passer-by": 403, "guest": 403, "manager": 403}),
    "the owner's alone": (None, {"passer-by": 403, "guest": 403, "manager": 403}),
    "elsewhere": (None, {"passer-by": 404, "guest": 404, "manager": 404}),
}
AGENT = "/api/agents/{agent_id}"
CONNECTOR = "/api/mcp/connectors/{connector_id}"
JOB = "/api/jobs/{job_id}"
# (method, address) -> what it is about, and what who may gets
ADDRESSES: dict[tuple[str, str], tuple[str, int]] = {
    ("get", AGENT): ("the agent", 200),
    ("delete", AGENT): ("the owner's", 202),
    ("put", f"{AGENT}/update"): ("what runs", 202),
    ("post", f"{AGENT}/update"): ("what runs", 202),
    ("post", f"{AGENT}/rollback"): ("what runs", 202),
    ("post", f"{AGENT}/deploy"): ("what runs", 202),
    ("post", f"{AGENT}/start"): ("what runs", 202),
    ("post", f"{AGENT}/restart"): ("what runs", 202),
    ("post", f"{AGENT}/scale"): ("what runs", 200),
    ("post", f"{AGENT}/stop"): ("what runs", 202),
    ("get", f"{AGENT}/versions"): ("history", 200),
    ("delete", f"{AGENT}/versions/{{version}}"): ("the owner's", 204),
    ("get", f"{AGENT}/deployments"): ("history", 200),
    ("get", f"{AGENT}/env"): ("the owner's", 200),
    ("patch", f"{AGENT}/env"): ("the owner's", 200),
    ("get", f"{AGENT}/grants"): ("the owner's alone", 200),
    ("put", f"{AGENT}/grants"): ("the owner's alone", 200),
    ("delete", f"{AGENT}/grants"): ("the owner's alone", 204),
    ("get", f"{AGENT}/watches"): ("the owner's", 200),
    ("post", f"{AGENT}/watches"): ("the owner's", 201),
    ("get", f"{AGENT}/proposals"): ("the owner's", 200),
    ("post", "/api/watches/{watch_id}/pause"): ("elsewhere", 200),
    ("post", "/api/watches/{watch_id}/resume"): ("elsewhere", 200),
    ("post", "/api/watches/{watch_id}/check"): ("elsewhere", 202),
    ("delete", "/api/watches/{watch_id}"): ("elsewhere", 204),
    ("post", "/api/proposals/{proposal_id}/accept"): ("elsewhere", 202),
    ("post", "/api/proposals/{proposal_id}/dismiss"): ("elsewhere", 200),
    ("get", CONNECTOR): ("elsewhere", 200),
    ("get", f"{CONNECTOR}/builds"): ("elsewhere", 200),
    ("post", f"{CONNECTOR}/refresh"): ("elsewhere", 202),
    ("delete", CONNECTOR): ("elsewhere", 202),
    ("post", "/api/builds"): ("what runs", 202),
    ("get", "/api/builds/{build_id}"): ("a build", 200),
    ("get", "/api/builds/{build_id}/log"): ("a build", 200),
    ("get", JOB): ("a job", 200),
    ("get", f"{JOB}/log"): ("a job", 200),
    ("get", f"{JOB}/events"): ("a job", 200),
    ("post", f"{JOB}/cancel"): ("a job's verb", 200),
    ("post", f"{JOB}/retry"): ("elsewhere", 202),
    ("post", f"{JOB}/pause"): ("a job's verb", 200),
    ("post", f"{JOB}/resume"): ("elsewhere", 202),
    ("post", f"{JOB}/answer"): ("a job's verb", 202),
    ("get", f"{JOB}/actions"): ("a job's verb", 200),
    ("post", "/api/actions/{action_id}/approve"): ("a job's verb", 200),
    ("post", "/api/actions/{action_id}/deny"): ("a job's verb", 200),
}
# Not about one object of the owner's: tested below, and beside what they do.
ELSEWHERE = {
    ("get", "/api/agents"),
    ("get", "/api/builds"),
    ("get", "/api/mcp/connectors"),
    ("get", "/api/secrets"),
    ("put", "/api/secrets/{name}"),
    ("delete", "/api/secrets/{name}"),
    ("post", UPLOAD),
    ("post", "/api/agents/clone"),
    ("post", "/api/github/clone"),
    ("post", "/api/mcp/connectors/upload"),
    ("post", "/api/mcp/connectors/upload-github"),
}
# What is read, and takes the permission to change all the same.
NOT_BY_VIEWING = {("get", f"{AGENT}/env")}


def expected(role: str, method: str, template: str) -> int:
    about, success = ADDRESSES[method, template]
    if role == "anonymous":
        return 401
    if role in OWNERS:
        return success
    if role in NEAR:
        first, refused = GRANTED[about]
        return refused.get(role, success if first else 403)
    if role in ("operator", "superuser"):
        return 403 if about == "the owner's alone" else success
    if role == "viewer":
        reads = method == "get" and (method, template) not in NOT_BY_VIEWING
        return success if reads and about != "the owner's alone" else 403
    return 404


@pytest.mark.parametrize("role", ROLES)
def test_every_address_answers_every_role_as_it_should(
    role: str, things: Things, owner: AbstractUser
) -> None:
    client = ROLES[role](owner, things.agent)
    before = state()
    wrong: dict[str, str] = {}

    for method, template in ADDRESSES:
        wanted = expected(role, method, template)
        with transaction.atomic():
            sent = things.request(method, template)
            response = getattr(client, method)(things.address(template), **sent)
            if response.status_code != wanted:
                wrong[f"{method} {template}"] = f"{wanted}: {response.text}"
            elif wanted >= 400:
                assert_problem(response, wanted, response.json()["code"])
                assert state() == before, (method, template)
            transaction.set_rollback(True)

    assert wrong == {}


def test_the_table_above_holds_every_address() -> None:
    paths = api.get_openapi_schema()["paths"]
    served = {(method, path) for path, methods in paths.items() for method in methods}

    assert served == set(ADDRESSES) | ELSEWHERE


def test_what_is_about_no_object_is_not_for_strangers(client: Client, db: None) -> None:
    for method, template in ELSEWHERE:
        response = getattr(client, method)(template.format(name="TOKEN"))

        assert_problem(response, 401, "not_authenticated")


@pytest.mark.parametrize("role", ROLES)
def test_the_list_of_agents_holds_what_the_role_may_see(
    role: str, things: Things, owner: AbstractUser
) -> None:
    response = ROLES[role](owner, things.agent).get("/api/agents")

    if role == "anonymous":
        assert_problem(response, 401, "not_authenticated")
        return
    # What is opened to somebody is listed apart, so that no name is taken for one's own.
    sees = expected(role, "get", AGENT) == 200 and role not in NEAR
    assert [a["name"] for a in response.json()["agents"]] == ["mine"] * sees


def test_an_upload_by_a_stranger_is_refused(db: None, client: Client) -> None:
    assert_problem(client.post(UPLOAD, {"name": "x"}), 401, "not_authenticated")


def test_what_is_not_mine_is_told_as_what_is_not_there(things: Things) -> None:
    another = logged_in(make_user("another"))
    absent = "00000000-0000-4000-8000-000000000000"

    theirs = another.get(f"/api/jobs/{things.job.pk}").json()
    nowhere = another.get(f"/api/jobs/{absent}").json()

    assert theirs["detail"].replace(str(things.job.pk), absent) == nowhere["detail"]
    assert theirs["code"] == nowhere["code"]


def test_who_may_see_jobs_may_not_therefore_read_logs(things: Things) -> None:
    client = logged_in(make_user("half", "view_buildjob", "view_agentbuild"))

    assert client.get(f"/api/jobs/{things.job.pk}").status_code == 200
    for address in (f"jobs/{things.job.pk}", f"builds/{things.build.pk}"):
        problem = assert_problem(client.get(f"/api/{address}/log"), 403, "forbidden")
        assert "buildqueue.view_log" in problem["detail"]


def test_the_owner_of_a_connector_sees_its_jobs(owner: AbstractUser) -> None:
    connector = make_connector(str(owner.pk))
    job = make_job(owner_id="somebody else", connector=connector)

    response = logged_in(owner).get(f"/api/jobs/{job.pk}")

    assert response.json()["target"] == {"type": "connector", "id": str(connector.pk)}


def test_no_answer_holds_a_payload_or_a_secret(
    owner: AbstractUser, as_owner: Client
) -> None:
    agent = make_agent(str(owner.pk), secrets_env={"TOKEN": "hush-1"})
    payload: dict[str, Any] = {"kind": "upload", "env": {"TOKEN": "hush-2"}}
    job = make_job(owner_id=str(owner.pk), agent=agent, payload=payload)
    build = make_build(agent, job=job, github_url="https://hush-3@example.org/x.git")

    for address in (
        f"/api/agents/{agent.pk}",
        "/api/agents",
        f"/api/jobs/{job.pk}",
        f"/api/jobs/{job.pk}/events",
        f"/api/builds/{build.pk}",
    ):
        response = as_owner.get(address)
        assert response.status_code == 200
        assert "hush" not in response.text, address
