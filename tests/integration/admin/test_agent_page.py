"""What does an agent's page tell of what it wants, has, follows and suffered?"""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from buildqueue.admin import wishes
from buildqueue.models import Agent, AgentGrant
from tests.factories import make_agent, make_build, make_job, make_user

from .builtrows import (
    make_active,
    make_deployment,
    make_proposal,
    make_version,
    make_watch,
)
from .conftest import Login
from .pages import html_of, page_of, text_of


def fill(agent: Agent, number: int) -> None:
    for n in range(number):
        make_build(agent, job=make_job(agent=agent), error_msg="x", hint="y")
        make_version(agent, f"1.0.{n}")
        make_deployment(agent)
        make_proposal(make_watch(agent))
        AgentGrant.objects.create(
            agent=agent, grant_type="user", grantee_id=str(make_user(f"{agent}{n}").pk)
        )


def test_what_the_agent_wants_is_told_in_words(root: Client) -> None:
    agent = make_agent(
        ports=[8000, 9000],
        replicas=3,
        resources={"memory_mb": 256, "cpus": 0.5, "processes": None},
        writable=True,
        writable_path="data",
        secrets_env={"B": "x", "A": "y"},
    )

    page = text_of(root.get(page_of(agent)))

    for words in (
        "Ports: 8000, 9000",
        "Copies: 3",
        "Limits of each copy: memory 256 MiB, processors 0.5",
        "Keeps files: yes, in data",
        "Environment: A, B",
        "Active version: none yet",
    ):
        assert words in page


@pytest.mark.parametrize("odd", [None, [], "x", 3, {"a": {"b": 1}}, {"memory_mb": []}])
def test_limits_of_another_systems_making_break_no_page(odd: object) -> None:
    assert isinstance(wishes.limits(odd), str)


def test_versions_say_which_can_be_deployed_again(root: Client) -> None:
    agent = make_active(make_agent(status="running"))
    make_deployment(agent, status="running")
    make_version(agent, "1.0.0", changelog="first")

    answer = root.get(page_of(agent))

    versions = {each.name: each for each in answer.context["related"]}["agentversion"]
    told = {row.name: [cell for cell, _ in row.cells][1:3] for row in versions.rows}
    assert told["1.0.0"] == ["yes", "first"]
    assert told["2.0.0"][0] != "yes"


def test_builds_tell_code_reason_and_what_helps(root: Client) -> None:
    agent = make_agent()
    make_build(
        agent,
        phase="build",
        error_code="dependency_failed",
        error_msg="pip found no such package",
        hint="correct requirements.txt",
    )

    page = text_of(root.get(page_of(agent)))

    assert "pip found no such package correct requirements.txt" in page
    assert "dependency_<wbr>failed" in html_of(root.get(page_of(agent)))


def test_deployments_tell_crashes_and_restarts(root: Client) -> None:
    agent = make_agent()
    make_deployment(
        agent,
        status="crashed",
        replicas=2,
        restart_count=7,
        crash_reason="it ended with exit code 3",
    )

    page = text_of(root.get(page_of(agent)))

    assert "crashed 2 7 it ended with exit code 3" in page


def test_what_waits_for_a_person_is_linked_and_the_rest_is_not(root: Client) -> None:
    agent = make_agent()
    watch = make_watch(agent, ref="main", failures=2, last_error="no such host")
    open_one = make_proposal(watch, summary="main is at abc")
    settled = make_proposal(watch, status="superseded", decided_at="2026-01-01T00:00Z")

    page = root.get(page_of(agent))

    assert page_of(open_one) in html_of(page)
    assert page_of(settled) not in html_of(page)
    assert page_of(watch) in html_of(page)
    assert "no such host" in text_of(page)


def test_grants_are_read_by_name(root: Client) -> None:
    agent = make_agent()
    bob = make_user("bob")
    AgentGrant.objects.create(
        agent=agent, grant_type="user", grantee_id=str(bob.pk), can_manage=True
    )
    AgentGrant.objects.create(agent=agent, grant_type="public", grantee_id="*")

    page = text_of(root.get(page_of(agent)))

    assert f"bob ({bob.pk}) see and change it" in page
    assert "everybody see it" in page


def test_each_part_needs_its_own_permission(login: Login) -> None:
    agent = make_agent()
    fill(agent, 1)
    models = {
        "agentbuild",
        "agentdeployment",
        "agentgrant",
        "agentversion",
        "buildjob",
        "proposal",
        "sourcewatch",
    }
    for model in models:
        viewer = login("view_agent", f"view_{model}", name=model)
        page = html_of(viewer.get(page_of(agent)))
        shown = {each for each in models if f'id="bq-{each}"' in page}
        assert shown == {model}


def test_the_page_costs_the_same_however_much_belongs_to_it(root: Client) -> None:
    small, large = make_active(), make_active()
    fill(small, 1)
    fill(large, 14)
    root.get(page_of(small))
    with CaptureQueriesContext(connection) as few:
        root.get(page_of(small))
    with CaptureQueriesContext(connection) as many:
        page = html_of(root.get(page_of(large)))

    assert len(many) == len(few) <= 24
    for model in ("agentbuild", "agentversion", "agentdeployment", "sourcewatch"):
        assert f"/admin/buildqueue/{model}/?agent={large.pk}" in page


def test_the_links_to_all_of_them_lead_to_lists_of_the_agent(root: Client) -> None:
    agent, other = make_agent(), make_agent()
    fill(agent, 12)
    fill(other, 1)

    related = root.get(page_of(agent)).context["related"]

    followed = [each for each in related if each.has_more and each.all_url]
    assert len(followed) == 6
    for each in followed:
        listed = root.get(each.all_url).context["cl"].result_list
        assert {row.agent_id for row in listed} == {agent.pk}, each.name
