"""Does everybody see and change what is theirs, and nothing else? Every URL, every role."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser
from django.test import Client

from buildqueue.api.routing import api
from buildqueue.models import Agent, AgentBuild, AgentDeployment, BuildJob, JobAction
from buildqueue.queue.questions import Field

from ...factories import make_agent, make_build, make_connector, make_job, make_user
from ...support.decisions import make_action, make_question
from .conftest import UPLOAD, assert_problem, token_client

pytestmark = pytest.mark.django_db


@dataclass(frozen=True)
class Things:
    """What belongs to the owner."""

    agent: Agent
    build: AgentBuild
    job: BuildJob  # pending
    failed: BuildJob
    paused: BuildJob
    asking: BuildJob
    action: JobAction

    def address(self, template: str) -> str:
        fit = {"retry": self.failed, "resume": self.paused, "answer": self.asking}
        job = fit.get(template.rpartition("/")[2], self.job)
        ids = {"agent_id": self.agent.pk, "build_id": self.build.pk, "job_id": job.pk}
        return template.format(action_id=self.action.pk, **ids)

    def body(self, template: str) -> Any:
        """Return what a verb is given, where it needs more than its address."""
        match template.rpartition("/")[2]:
            case "answer":
                return {"values": {"name": "Anna"}}
            case "approve" | "deny":
                return {"content_hash": self.action.content_hash, "reason": "x"}
        return None


@pytest.fixture
def things(owner: AbstractUser) -> Things:
    agent = make_agent(str(owner.pk), name="mine")
    # An operator asked for it: it is the owner's all the same, by its agent.
    job = make_job(owner_id="somebody else", agent=agent)
    build = make_build(agent, job=job)
    AgentDeployment.objects.create(agent=agent, build=build, host="machine-1")
    failed = make_job("failed", owner_id=str(owner.pk))
    paused = make_job("paused", owner_id=str(owner.pk))
    fields = {"name": Field()}
    asking = make_question("Who?", fields, owner_id="somebody else", agent=agent)
    action = make_action(job)
    return Things(agent, build, job, failed, paused, asking, action)


VIEW = (
    "view_agent",
    "view_agentbuild",
    "view_buildjob",
    "view_log",
    "view_jobaction",
    "view_payload",
)
CHANGE = (
    "cancel_buildjob",
    "retry_buildjob",
    "pause_buildjob",
    "answer_buildjob",
    "decide_jobaction",
    "stop_agent",
    "delete_agent",
)


def _logged_in(user: AbstractUser) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(user)
    return client


def _superuser(owner: AbstractUser) -> AbstractUser:
    return make_user("root", is_staff=True, is_superuser=True)


# role -> client, given the owner
ROLES: dict[str, Callable[[AbstractUser], Client]] = {
    "anonymous": lambda owner: Client(raise_request_exception=False),
    "owner": _logged_in,
    "owner's token": token_client,
    "another owner": lambda owner: _logged_in(make_user("another")),
    "another's token": lambda owner: token_client(make_user("another")),
    "staff": lambda owner: _logged_in(make_user("staff", is_staff=True)),
    "viewer": lambda owner: _logged_in(make_user("viewer", *VIEW, is_staff=True)),
    "changer who cannot view": lambda owner: _logged_in(make_user("c", *CHANGE)),
    "operator": lambda owner: _logged_in(make_user("op", *VIEW, *CHANGE)),
    "superuser": lambda owner: _logged_in(_superuser(owner)),
}

# (method, address) -> what who may gets
ADDRESSES = {
    ("get", "/api/agents/{agent_id}"): 200,
    ("delete", "/api/agents/{agent_id}"): 202,
    ("post", "/api/agents/{agent_id}/stop"): 202,
    ("get", "/api/builds/{build_id}"): 200,
    ("get", "/api/builds/{build_id}/log"): 200,
    ("get", "/api/jobs/{job_id}"): 200,
    ("get", "/api/jobs/{job_id}/log"): 200,
    ("get", "/api/jobs/{job_id}/events"): 200,
    ("post", "/api/jobs/{job_id}/cancel"): 200,
    ("post", "/api/jobs/{job_id}/retry"): 202,
    ("post", "/api/jobs/{job_id}/pause"): 200,
    ("post", "/api/jobs/{job_id}/resume"): 202,
    ("post", "/api/jobs/{job_id}/answer"): 202,
    ("get", "/api/jobs/{job_id}/actions"): 200,
    ("post", "/api/actions/{action_id}/approve"): 200,
    ("post", "/api/actions/{action_id}/deny"): 200,
}
# Not about one object: tested below.
ELSEWHERE = {("get", "/api/agents"), ("post", UPLOAD)}


def expected(role: str, method: str, success: int) -> int:
    if role == "anonymous":
        return 401
    if role in ("owner", "owner's token", "operator", "superuser"):
        return success
    if role == "viewer":
        return success if method == "get" else 403
    return 404


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(("method", "template"), ADDRESSES)
def test_every_address_answers_every_role_as_it_should(
    method: str, template: str, role: str, things: Things, owner: AbstractUser
) -> None:
    client = ROLES[role](owner)
    wanted = expected(role, method, ADDRESSES[method, template])

    body = things.body(template)
    given = {"data": body, "content_type": "application/json"} if body else {}

    response = getattr(client, method)(things.address(template), **given)

    assert response.status_code == wanted, response.text
    if wanted >= 400:
        assert_problem(response, wanted, response.json()["code"])
        assert_unchanged(things)


def assert_unchanged(things: Things) -> None:
    assert BuildJob.objects.get(pk=things.job.pk).status == "pending"
    assert BuildJob.objects.get(pk=things.failed.pk).status == "failed"
    assert Agent.objects.get(pk=things.agent.pk).deleted_at is None
    assert BuildJob.objects.get(pk=things.paused.pk).status == "paused"
    assert BuildJob.objects.get(pk=things.asking.pk).status == "waiting_input"
    assert JobAction.objects.get(pk=things.action.pk).status == "awaiting_review"
    assert BuildJob.objects.count() == 4


def test_the_table_above_holds_every_address() -> None:
    paths = api.get_openapi_schema()["paths"]
    served = {(method, path) for path, methods in paths.items() for method in methods}

    assert served == set(ADDRESSES) | ELSEWHERE


@pytest.mark.parametrize("role", ROLES)
def test_the_list_of_agents_holds_what_the_role_may_see(
    role: str, things: Things, owner: AbstractUser
) -> None:
    response = ROLES[role](owner).get("/api/agents")

    if role == "anonymous":
        assert_problem(response, 401, "not_authenticated")
        return
    sees = expected(role, "get", 200) == 200
    assert [a["name"] for a in response.json()["agents"]] == ["mine"] * sees


def test_an_upload_by_a_stranger_is_refused(db: None, client: Client) -> None:
    assert_problem(client.post(UPLOAD, {"name": "x"}), 401, "not_authenticated")


def test_what_is_not_mine_is_told_as_what_is_not_there(things: Things) -> None:
    another = _logged_in(make_user("another"))
    absent = "00000000-0000-4000-8000-000000000000"

    theirs = another.get(f"/api/jobs/{things.job.pk}").json()
    nowhere = another.get(f"/api/jobs/{absent}").json()

    assert theirs["detail"].replace(str(things.job.pk), absent) == nowhere["detail"]
    assert theirs["code"] == nowhere["code"]


def test_who_may_see_jobs_may_not_therefore_read_logs(things: Things) -> None:
    client = _logged_in(make_user("half", "view_buildjob", "view_agentbuild"))

    assert client.get(f"/api/jobs/{things.job.pk}").status_code == 200
    for address in (f"jobs/{things.job.pk}", f"builds/{things.build.pk}"):
        problem = assert_problem(client.get(f"/api/{address}/log"), 403, "forbidden")
        assert "buildqueue.view_log" in problem["detail"]


def test_the_owner_of_a_connector_sees_its_jobs(owner: AbstractUser) -> None:
    connector = make_connector(str(owner.pk))
    job = make_job(owner_id="somebody else", connector=connector)

    response = _logged_in(owner).get(f"/api/jobs/{job.pk}")

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
