"""Is an agent opened to users and to everybody, by its owner alone, and closed again?"""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser
from django.test import Client

from buildqueue.models import Agent, AgentGrant

from ...factories import make_agent, make_user
from .conftest import assert_problem
from .roles import logged_in, open_to

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent(owner: AbstractUser) -> Agent:
    return make_agent(str(owner.pk), name="greeter")


def put(client: Client, agent: Agent, body: Any) -> Any:
    address = f"/api/agents/{agent.pk}/grants"
    return client.put(address, body, content_type="application/json")


def test_a_user_is_let_in_by_name_or_key_and_out_again(
    agent: Agent, as_owner: Client
) -> None:
    anna = make_user("anna")
    address = f"/api/agents/{agent.pk}"
    assert logged_in(anna).get(address).status_code == 404

    opened = put(as_owner, agent, {"user": "anna"})
    changed = put(as_owner, agent, {"user_id": str(anna.pk), "can_manage": True})

    assert opened.json()["grants"][0]["can_manage"] is False
    [grant] = changed.json()["grants"]
    assert (grant["type"], grant["user"], grant["can_manage"]) == ("user", "anna", True)
    assert logged_in(anna).get(address).status_code == 200
    query = {"user_id": str(anna.pk)}
    gone = as_owner.delete(f"{address}/grants", query_params=query)
    again = as_owner.delete(f"{address}/grants", query_params=query)
    assert gone.status_code == 204
    assert gone.content == b""
    assert_problem(again, 404, "grant_not_found")
    assert logged_in(anna).get(address).status_code == 404


def test_an_agent_is_opened_to_everybody(agent: Agent, as_owner: Client) -> None:
    anybody = logged_in(make_user("anybody"))
    address = f"/api/agents/{agent.pk}"

    put(as_owner, agent, {"public": True})

    assert anybody.get(address).json()["is_public"] is True
    assert_problem(anybody.get(f"{address}/versions"), 403, "forbidden")
    as_owner.delete(f"{address}/grants", query_params={"public": "true"})
    assert anybody.get(address).status_code == 404
    assert as_owner.get(address).json()["is_public"] is False


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 422, "missing_field"),
        ({"user": "anna", "public": True}, 422, "missing_field"),
        ({"public": True, "can_manage": True}, 422, "invalid_field"),
        ({"user": "nobody"}, 404, "user_not_found"),
        ({"user": "nul\x00"}, 422, "invalid_field"),
        ({"user": "\ud800"}, 422, "invalid_field"),
        ({"user_id": "x"}, 404, "user_not_found"),
        ({"user_id": "*"}, 404, "user_not_found"),
        ({"user_id": 1}, 422, "invalid_field"),
        ({"user": "owner"}, 400, "invalid_grant"),
        ({"user": "gone"}, 404, "user_not_found"),
        ({"user": "anna", "can_manage": "yes"}, 422, "invalid_field"),
    ],
)
def test_a_grant_that_makes_no_sense_is_refused(
    body: dict[str, Any], status: int, code: str, agent: Agent, as_owner: Client
) -> None:
    make_user("anna")
    make_user("gone", is_active=False)

    assert_problem(put(as_owner, agent, body), status, code)

    assert not AgentGrant.objects.exists()


@pytest.mark.parametrize(
    "query", [{}, {"user": "a", "public": "true"}, {"user_id": "nul\x00"}]
)
def test_a_grant_is_not_closed_to_nobody(
    query: dict[str, str], agent: Agent, as_owner: Client
) -> None:
    response = as_owner.delete(f"/api/agents/{agent.pk}/grants", query_params=query)

    assert response.status_code in (404, 422), response.text


def test_who_manages_an_agent_opens_it_to_nobody(agent: Agent) -> None:
    manager = open_to(agent, make_user("manager"), can_manage=True)

    assert_problem(put(manager, agent, {"public": True}), 403, "forbidden")


def test_agents_of_others_are_listed_apart(
    agent: Agent, owner: AbstractUser, as_owner: Client
) -> None:
    guest = make_user("guest")
    client = open_to(agent, guest)
    make_agent(str(guest.pk), name="greeter")  # of the same name
    public = make_agent(str(owner.pk), name="public")
    put(as_owner, public, {"public": True})

    [own] = client.get("/api/agents", {"name": "greeter"}).json()["agents"]
    shared = client.get("/api/agents", {"shared": "true"}).json()["agents"]

    assert own["owner_id"] == str(guest.pk)
    assert {each["name"] for each in shared} == {"greeter", "public"}
    assert {each["owner_id"] for each in shared} == {str(owner.pk)}
    assert as_owner.get("/api/agents", {"shared": "true"}).json()["agents"] == []


def test_an_agent_that_was_deleted_is_open_to_nobody(
    agent: Agent, as_owner: Client
) -> None:
    client = open_to(agent, make_user("guest"), can_manage=True)

    as_owner.delete(f"/api/agents/{agent.pk}")

    assert_problem(client.get(f"/api/agents/{agent.pk}"), 404, "agent_not_found")
    assert client.get("/api/agents", {"shared": "true"}).json()["agents"] == []
