"""What do the addresses of agents and builds tell, and do?"""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser
from django.test import Client
from django.utils import timezone

from buildqueue.models import Agent, AgentDeployment, BuildJob, JobEvent

from ...factories import make_agent, make_build, make_job
from .conftest import assert_problem
from .test_jobs import used_token

pytestmark = pytest.mark.django_db


def make_running(owner: AbstractUser, **values: Any) -> Agent:
    agent = make_agent(str(owner.pk), status="running", **values)
    build = make_build(agent, status="success", completed_at=timezone.now())
    AgentDeployment.objects.create(
        agent=agent, build=build, status="running", host="machine-1"
    )
    return agent


def test_an_agent_tells_its_address_and_version(
    owner: AbstractUser, as_owner: Client
) -> None:
    agent = make_running(
        owner, name="greeter", url="http://127.0.0.1:20000", version="1.2.0"
    )

    body = as_owner.get(f"/api/agents/{agent.pk}").json()

    assert (body["name"], body["status"]) == ("greeter", "running")
    assert (body["url"], body["version"]) == ("http://127.0.0.1:20000", "1.2.0")


def test_an_agent_that_was_deleted_is_gone(
    owner: AbstractUser, as_owner: Client
) -> None:
    agent = make_agent(str(owner.pk), deleted_at=timezone.now())

    assert_problem(as_owner.get(f"/api/agents/{agent.pk}"), 404, "agent_not_found")
    assert as_owner.get("/api/agents").json() == {"agents": [], "next": None}


def test_agents_are_listed_newest_first_page_by_page(
    owner: AbstractUser, as_owner: Client
) -> None:
    # One moment for all of them, as in one transaction: ties must not lose any.
    made = {str(make_agent(str(owner.pk)).pk) for _ in range(7)}

    seen: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = as_owner.get("/api/agents", {"limit": 3} | after).json()
        seen += [agent["id"] for agent in page["agents"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}

    assert len(seen) == 7
    assert set(seen) == made


def test_a_page_goes_on_after_an_agent_that_was_deleted_meanwhile(
    owner: AbstractUser, as_owner: Client
) -> None:
    agents = [make_agent(str(owner.pk)) for _ in range(3)]
    for hours, agent in enumerate(agents):
        moment = timezone.now() - timezone.timedelta(hours=hours)
        Agent.objects.filter(pk=agent.pk).update(created_at=moment)
    Agent.objects.filter(pk=agents[0].pk).update(deleted_at=timezone.now())

    page = as_owner.get("/api/agents", {"after": str(agents[0].pk)}).json()

    assert [a["id"] for a in page["agents"]] == [str(a.pk) for a in agents[1:]]


def test_an_agent_is_found_by_its_name(owner: AbstractUser, as_owner: Client) -> None:
    make_agent(str(owner.pk), name="one")
    make_agent(str(owner.pk), name="two")

    found = as_owner.get("/api/agents", {"name": "two"}).json()["agents"]
    none = as_owner.get("/api/agents", {"name": "nul\x00"})

    assert [agent["name"] for agent in found] == ["two"]
    assert none.json() == {"agents": [], "next": None}


@pytest.mark.parametrize(
    "query", [{"after": "x"}, {"limit": "0"}, {"limit": "201"}, {"limit": "all"}]
)
def test_a_bad_query_is_refused(query: dict[str, str], as_owner: Client) -> None:
    problem = assert_problem(
        as_owner.get("/api/agents", query), 422, "invalid_parameter"
    )

    assert set(problem["fields"]) == set(query)


def test_a_page_after_an_agent_of_somebody_else_is_refused(as_owner: Client) -> None:
    other = make_agent("somebody else")

    response = as_owner.get("/api/agents", {"after": str(other.pk)})

    assert_problem(response, 422, "invalid_parameter")


def test_listing_agents_takes_a_query_for_all_of_them(
    owner: AbstractUser, django_assert_num_queries: Any
) -> None:
    for _ in range(10):
        make_agent(str(owner.pk))
    client = used_token(owner)

    with django_assert_num_queries(4):  # token, permissions of user and groups, agents
        assert len(client.get("/api/agents").json()["agents"]) == 10


def test_stop_queues_the_end_of_what_runs(
    owner: AbstractUser, as_owner: Client
) -> None:
    agent = make_running(owner)

    response = as_owner.post(f"/api/agents/{agent.pk}/stop")

    assert response.status_code == 202, response.text
    body = response.json()
    job = BuildJob.objects.get()
    assert (body["status"], body["job_id"]) == ("queued", str(job.pk))
    assert body["job_ids"] == [str(job.pk)]
    assert response.headers["Location"] == f"/api/jobs/{job.pk}"
    assert as_owner.get(response.headers["Location"]).status_code == 200


def test_stop_of_an_agent_that_never_ran_is_done_at_once(
    owner: AbstractUser, as_owner: Client
) -> None:
    agent = make_agent(str(owner.pk))

    response = as_owner.post(f"/api/agents/{agent.pk}/stop")

    assert response.status_code == 200
    assert response.json()["status"] == "done"
    assert response.json()["job_id"] is None


def test_delete_ends_the_agent_and_what_is_open_for_it(
    owner: AbstractUser, as_owner: Client
) -> None:
    agent = make_running(owner)
    open_job = make_job(owner_id=str(owner.pk), agent=agent)

    response = as_owner.delete(f"/api/agents/{agent.pk}?reason=not+needed")

    assert response.status_code == 202, response.text
    assert as_owner.get(response.headers["Location"]).status_code == 200
    open_job.refresh_from_db()
    assert open_job.status == "cancelled"
    assert JobEvent.objects.get(job=open_job, kind="cancel").reason == "not needed"
    assert_problem(as_owner.get(f"/api/agents/{agent.pk}"), 404, "agent_not_found")
    again = as_owner.delete(f"/api/agents/{agent.pk}")
    assert_problem(again, 404, "agent_not_found")


def test_a_reason_that_is_too_long_deletes_nothing(
    owner: AbstractUser, as_owner: Client
) -> None:
    agent = make_running(owner)

    response = as_owner.delete(f"/api/agents/{agent.pk}?reason={'x' * 1001}")

    assert_problem(response, 422, "invalid_field")
    assert Agent.objects.live().get() == agent


def test_a_build_tells_why_it_failed(owner: AbstractUser, as_owner: Client) -> None:
    agent = make_agent(str(owner.pk), name="greeter")
    build = make_build(
        agent,
        version_tag="1.0.3",
        status="failed",
        phase="install",
        error_code="install_failed",
        error_msg="no such package",
        completed_at=timezone.now(),
    )

    response = as_owner.get(f"/api/builds/{build.pk}")

    body = response.json()
    assert (body["agent_name"], body["version"]) == ("greeter", "1.0.3")
    assert (body["status"], body["phase"]) == ("failed", "install")
    assert body["error"] == {"code": "install_failed", "message": "no such package"}
    assert "Retry-After" not in response.headers


def test_an_open_build_says_when_to_look_again_and_when_nothing_is_new(
    owner: AbstractUser, as_owner: Client
) -> None:
    build = make_build(make_agent(str(owner.pk)))

    response = as_owner.get(f"/api/builds/{build.pk}")
    headers = {"If-None-Match": response.headers["ETag"]}
    again = as_owner.get(f"/api/builds/{build.pk}", headers=headers)

    assert int(response.headers["Retry-After"]) > 0
    assert again.status_code == 304
