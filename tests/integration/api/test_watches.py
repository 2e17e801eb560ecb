"""Are watches made, paused and removed, and proposals decided, over the API?"""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser
from django.test import Client
from django.utils import timezone

from buildqueue.builds import secrets
from buildqueue.models import Agent, BuildJob, Proposal, SourceWatch

from ...factories import make_agent, make_user
from .conftest import assert_problem
from .roles import GIT, logged_in, make_versions
from .test_deploying import post

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent(owner: AbstractUser) -> Agent:
    made = make_agent(str(owner.pk), name="greeter", status="running")
    make_versions(made)
    return made


@pytest.fixture
def watch(agent: Agent) -> SourceWatch:
    made = SourceWatch.objects.create(agent=agent, git_url=GIT, ref="main")
    made.refresh_from_db()
    return made


def test_an_agent_follows_a_branch(
    agent: Agent, as_owner: Client, owner: AbstractUser
) -> None:
    secrets.set_secret(str(owner.pk), "TOKEN", "hush")
    address = f"/api/agents/{agent.pk}/watches"
    body = {"url": GIT, "branch": "main", "mode": "update", "secret": "TOKEN"}

    made = post(as_owner, address, body)

    assert made.status_code == 201, made.text
    [told] = as_owner.get(address).json()["watches"]
    assert told == made.json()
    assert (told["ref"], told["mode"], told["secret"]) == ("main", "update", "TOKEN")
    assert told["created_by"] == str(owner.pk)
    assert_problem(post(as_owner, address, body), 409, "watch_exists")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"url": GIT}, 422, "missing_field"),
        ({"url": GIT, "ref": "a" * 40}, 422, "invalid_parameter"),
        ({"url": GIT, "ref": "main", "mode": "guess"}, 422, "invalid_parameter"),
        ({"url": GIT, "ref": "main", "bump": "huge"}, 422, "invalid_parameter"),
        ({"url": GIT, "ref": "main", "interval_minutes": 0}, 422, "invalid_parameter"),
        ({"url": GIT, "ref": "main", "interval_minutes": 1.5}, 422, "invalid_field"),
        ({"url": GIT, "ref": "main", "secret": "NONE"}, 400, "secret_missing"),
        ({"url": GIT, "ref": "main", "token": "hush"}, 422, "unknown_field"),
        ({"url": "http://github.com/a/b", "ref": "x"}, 400, "git_protocol_not_allowed"),
    ],
)
def test_a_watch_that_cannot_be_is_refused(
    body: dict[str, Any], status: int, code: str, agent: Agent, as_owner: Client
) -> None:
    assert_problem(
        post(as_owner, f"/api/agents/{agent.pk}/watches", body), status, code
    )

    assert not SourceWatch.objects.exists()


def test_a_watch_is_paused_resumed_checked_and_removed(
    watch: SourceWatch, as_owner: Client
) -> None:
    address = f"/api/watches/{watch.pk}"

    paused = post(as_owner, f"{address}/pause", {"reason": "holidays"}).json()
    refused = as_owner.post(f"{address}/check")
    resumed = as_owner.post(f"{address}/resume").json()
    checked = as_owner.post(f"{address}/check")
    removed = as_owner.delete(address)

    assert (paused["status"], resumed["status"]) == ("paused", "active")
    assert "holidays" in paused["pause_reason"]
    assert set(paused["links"]) == {"agent", "resume"}
    assert_problem(refused, 409, "watch_paused")
    assert checked.status_code == 202, checked.text
    assert as_owner.get(checked.headers["Location"]).status_code == 200
    assert removed.status_code == 204
    assert_problem(as_owner.delete(address), 404, "watch_not_found")


def test_a_proposal_is_accepted_once(watch: SourceWatch, as_owner: Client) -> None:
    made = Proposal.objects.create(
        watch=watch, agent_id=watch.agent_id, commit_hash="a" * 40
    )
    address = f"/api/proposals/{made.pk}"

    first, second = (
        as_owner.post(f"{address}/accept"),
        as_owner.post(f"{address}/accept"),
    )

    assert first.status_code == 202, first.text
    assert first.json()["id"] == second.json()["id"] == str(BuildJob.objects.get().pk)
    assert_problem(as_owner.post(f"{address}/dismiss"), 409, "already_decided")
    listed = f"/api/agents/{watch.agent_id}/proposals"
    [told] = as_owner.get(listed, {"status": "accepted"}).json()["proposals"]
    assert (told["commit"], told["job_id"]) == ("a" * 40, first.json()["id"])
    assert as_owner.get(listed, {"status": "open"}).json()["proposals"] == []


def test_a_proposal_is_dismissed(watch: SourceWatch, as_owner: Client) -> None:
    made = Proposal.objects.create(
        watch=watch, agent_id=watch.agent_id, commit_hash="a" * 40
    )

    response = as_owner.post(f"/api/proposals/{made.pk}/dismiss")

    assert (response.status_code, response.json()["status"]) == (200, "dismissed")
    assert response.json()["decided_by"] == "owner"
    assert not BuildJob.objects.exists()


def test_who_sees_watches_does_not_therefore_change_them(watch: SourceWatch) -> None:
    viewer = logged_in(make_user("viewer", "view_agent", "view_sourcewatch"))
    blind = logged_in(make_user("blind", "view_agent"))
    address = f"/api/agents/{watch.agent_id}/watches"

    assert len(viewer.get(address).json()["watches"]) == 1
    assert_problem(blind.get(address), 403, "forbidden")
    pause = f"/api/watches/{watch.pk}/pause"
    assert_problem(viewer.post(pause), 403, "forbidden")
    assert_problem(blind.post(pause), 404, "watch_not_found")


def test_what_belongs_to_a_deleted_agent_is_gone(
    watch: SourceWatch, as_owner: Client
) -> None:
    made = Proposal.objects.create(
        watch=watch, agent_id=watch.agent_id, commit_hash="a" * 40
    )
    Agent.objects.update(deleted_at=timezone.now())

    pause = as_owner.post(f"/api/watches/{watch.pk}/pause")
    accept = as_owner.post(f"/api/proposals/{made.pk}/accept")

    assert_problem(pause, 404, "watch_not_found")
    assert_problem(accept, 404, "proposal_not_found")
