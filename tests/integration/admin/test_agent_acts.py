"""What may an operator do to an agent from its page, and what comes of it?"""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from buildqueue.admin.agentacts import AGENT_ACTS
from buildqueue.models import Agent, AgentBuild, BuildJob, JobEvent
from tests.factories import make_agent

from .builtrows import make_active, make_deployment, make_version
from .pages import act_url, html_of, page_of, text_of


def post(client: Client, act: str, agent: Agent, **given: str) -> Any:
    asked = {"id": str(agent.pk), "from": "page", "reason": "because"}
    return client.post(act_url(act, "agent"), asked | given, follow=True)


def ask(client: Client, act: str, agent: Agent) -> Any:
    return client.get(act_url(act, "agent"), {"id": str(agent.pk), "from": "page"})


@pytest.mark.parametrize(
    ("act", "kind", "words"),
    [
        ("restart", "agent_start", "The agent is being restarted."),
        ("start", "agent_start", "The agent is being started."),
    ],
)
def test_an_agent_is_started_by_a_job_that_keeps_who_and_why(
    root: Client, act: str, kind: str, words: str
) -> None:
    agent = make_active(make_agent(status="stopped"))

    answer = post(root, act, agent)

    job = BuildJob.objects.get(agent=agent)
    assert job.kind == kind
    assert answer.redirect_chain[-1][0] == page_of(agent)
    assert words in text_of(answer)
    assert page_of(job) in html_of(answer)
    assert JobEvent.objects.filter(job=job, title="because").exists()


def test_a_running_agent_is_restarted_and_not_started(root: Client) -> None:
    agent = make_active(make_agent(status="running"))
    make_deployment(agent, status="running")

    page = html_of(root.get(page_of(agent)))

    assert act_url("restart", "agent") in page
    assert act_url("start", "agent") not in page
    assert "Start: it is running" in text_of(root.get(page_of(agent)))


def test_an_agent_without_a_version_can_neither_start_nor_go_back(
    root: Client,
) -> None:
    agent = make_agent()

    page = text_of(root.get(page_of(agent)))

    for told in (
        "Restart: it has no version yet",
        "Start: it has no version yet",
        "Roll back: it has no other version to run",
    ):
        assert told in page


def test_a_refusal_is_told_in_the_words_of_the_domain(root: Client) -> None:
    agent = make_agent(status="failed")

    answer = post(root, "start", agent)

    assert "the agent has no active version: upload or deploy one first" in text_of(
        answer
    )
    assert not BuildJob.objects.filter(agent=agent).exists()


def test_scaling_asks_for_a_number_and_queues_a_job(root: Client) -> None:
    agent = make_active(make_agent(status="running", replicas=2))
    make_deployment(agent, status="running")

    assert 'value="2"' in html_of(ask(root, "scale", agent))
    post(root, "scale", agent, **{"given-replicas": "5"})

    assert BuildJob.objects.get(agent=agent).payload["replicas"] == 5


def test_scaling_what_does_not_run_is_kept_for_its_next_start(root: Client) -> None:
    agent = make_active(make_agent(status="stopped"))

    post(root, "scale", agent, **{"given-replicas": "3"})

    agent.refresh_from_db()
    assert agent.replicas == 3
    assert "Copies: 3" in text_of(root.get(page_of(agent)))


@pytest.mark.parametrize("number", ["", "0", "17", "many"])
def test_a_number_of_copies_that_is_none_is_told_at_its_field(
    root: Client, number: str
) -> None:
    agent = make_active(make_agent(status="stopped"))

    answer = post(root, "scale", agent, **{"given-replicas": number})

    assert 'class="bq-fault"' in html_of(answer)
    agent.refresh_from_db()
    assert agent.replicas == 1


def test_going_back_offers_only_what_can_be_deployed_the_newest_first(
    root: Client,
) -> None:
    agent = make_active(make_agent(status="running"), "3.0.0")
    make_deployment(agent, status="running")
    for version, status, back in (
        ("1.9.0", "archived", True),
        ("1.10.0", "archived", True),
        ("2.0.0", "archived", False),
        ("4.0.0", "pushed", False),
        ("5.0.0", "building", False),
    ):
        make_version(agent, version, status=status, can_rollback=back)

    page = ask(root, "rollback", agent)

    offered = [
        value for value, _ in page.context["form"].fields["given-version"].choices
    ]
    assert offered == ["4.0.0", "1.10.0", "1.9.0"]


def test_going_back_queues_the_deployment_of_the_chosen_version(root: Client) -> None:
    agent = make_active(make_agent(status="running"))
    make_version(agent, "1.0.0")
    make_version(agent, "1.1.0")

    answer = post(root, "rollback", agent, **{"given-version": "1.0.0"})

    build = AgentBuild.objects.get(agent=agent)
    assert build.version_tag == "1.0.0"
    assert build.job is not None
    assert build.job.kind == "rollback"
    assert "The version is being deployed." in text_of(answer)
    assert page_of(build.job) in html_of(answer)


def test_going_back_wants_a_reason_and_a_version_that_is_offered(root: Client) -> None:
    agent = make_active(make_agent(status="running"))
    make_version(agent, "1.0.0")

    for given in (
        {"given-version": "1.0.0", "reason": " "},
        {"given-version": "9.9.9"},
        {},
    ):
        answer = post(root, "rollback", agent, **given)
        assert 'class="bq-fault"' in html_of(answer)
    assert not BuildJob.objects.exists()


def test_of_a_deleted_agent_nothing_is_asked(root: Client) -> None:
    agent = make_active(make_agent(status="stopped", deleted_at=timezone.now()))
    make_version(agent, "1.0.0")

    page = html_of(root.get(page_of(agent)))

    for act in AGENT_ACTS:
        assert f"{act_url(act.name, 'agent')}?" not in page
        assert "it was deleted" in text_of(ask(root, act.name, agent))


def test_one_agent_at_a_time_goes_back(root: Client) -> None:
    agents = [make_active(), make_active()]
    asked = {"id": [str(agent.pk) for agent in agents]}

    answer = root.get(act_url("rollback", "agent"), asked, follow=True)

    assert "This is done one at a time." in text_of(answer)
