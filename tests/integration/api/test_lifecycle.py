"""Is an agent started, restarted and scaled, and are its deployments told?"""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser
from django.test import Client

from buildqueue.models import Agent, AgentDeployment, BuildJob, JobEvent

from ...factories import make_user
from .conftest import assert_problem
from .roles import logged_in, make_versions, open_to
from .test_agents import make_running

pytestmark = pytest.mark.django_db


@pytest.fixture
def running(owner: AbstractUser) -> Agent:
    """Make an agent of which a version runs."""
    agent = make_running(owner, name="greeter", version="1.0.0")
    make_versions(agent)
    AgentDeployment.objects.update(
        spec_env=["COLOR"], last_logs="the last line", crash_reason="exit 1"
    )
    return agent


def test_a_restart_is_queued_with_its_reason(running: Agent, as_owner: Client) -> None:
    response = as_owner.post(
        f"/api/agents/{running.pk}/restart", {"reason": "new settings"}
    )

    job = BuildJob.objects.get()
    assert response.status_code == 202, response.text
    assert response.json()["job_ids"] == [str(job.pk)]
    assert response.headers["Location"] == f"/api/jobs/{job.pk}"
    assert job.kind == "agent_start"
    assert JobEvent.objects.filter(job=job, title="new settings").exists()


def test_an_agent_that_runs_is_not_started(running: Agent, as_owner: Client) -> None:
    response = as_owner.post(f"/api/agents/{running.pk}/start")

    assert_problem(response, 409, "already_running")


def test_an_agent_that_was_stopped_is_started(running: Agent, as_owner: Client) -> None:
    AgentDeployment.objects.update(status="stopped")

    response = as_owner.post(f"/api/agents/{running.pk}/start")

    assert response.status_code == 202, response.text
    assert BuildJob.objects.get().kind == "agent_start"


def test_an_agent_is_scaled(running: Agent, as_owner: Client) -> None:
    address = f"/api/agents/{running.pk}/scale"

    queued = as_owner.post(address, {"replicas": 3})
    AgentDeployment.objects.update(status="stopped")
    kept = as_owner.post(address, {"replicas": 2}, content_type="application/json")

    assert queued.status_code == 202, queued.text
    assert BuildJob.objects.get().payload["replicas"] == 3
    assert (kept.status_code, kept.json()["status"]) == (200, "done")
    assert as_owner.get(f"/api/agents/{running.pk}").json()["replicas"] == 2


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "missing_field"),
        ({"replicas": 0}, "invalid_parameter"),
        ({"replicas": 10**30}, "invalid_parameter"),
        ({"replicas": True}, "invalid_field"),
        ({"replicas": "2"}, "invalid_field"),
        ({"replicas": 2, "force": True}, "unknown_field"),
    ],
)
def test_a_number_of_copies_that_cannot_be_is_refused(
    body: dict[str, Any], code: str, running: Agent, as_owner: Client
) -> None:
    response = as_owner.post(
        f"/api/agents/{running.pk}/scale", body, content_type="application/json"
    )

    assert_problem(response, 422, code)
    assert not BuildJob.objects.exists()


def test_deployments_tell_the_names_of_their_environment(
    running: Agent, as_owner: Client
) -> None:
    [told] = as_owner.get(f"/api/agents/{running.pk}/deployments").json()["deployments"]

    assert (told["status"], told["version"]) == ("running", "1.0.0")
    assert (told["env"], told["last_logs"]) == (["COLOR"], "the last line")
    assert told["crash_reason"] == "exit 1"


def test_a_guest_sees_deployments_without_the_environment(running: Agent) -> None:
    guest = open_to(running, make_user("guest"))
    staff = logged_in(make_user("staff", "view_agent", "view_agentdeployment"))
    address = f"/api/agents/{running.pk}/deployments"

    [to_guest] = guest.get(address).json()["deployments"]
    [to_staff] = staff.get(address).json()["deployments"]

    assert (to_guest["env"], to_guest["last_logs"]) == (None, "the last line")
    assert (to_staff["env"], to_staff["last_logs"]) == (["COLOR"], None)
