"""What do the pages of agents, builds and workers show, and what may be done there?"""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from buildqueue.admin import people
from buildqueue.models import (
    Agent,
    AgentDeployment,
    AgentVersion,
    McpConnectorBuild,
    Worker,
)
from tests.factories import (
    make_agent,
    make_build,
    make_connector,
    make_job,
    make_user,
)

from .conftest import Login
from .pages import act_url, html_of, page_of, text_of

AGENTS = "/admin/buildqueue/agent/"


def test_an_agents_page_links_what_belongs_to_it(root: Client) -> None:
    agent = make_agent(url="http://127.0.0.1:20001/")
    job = make_job("failed", agent=agent, error_msg="no Dockerfile")
    build = make_build(agent, job=job, phase="install", version_tag="2.0.0")
    version = AgentVersion.objects.create(agent=agent, version="2.0.0")
    deployment = AgentDeployment.objects.create(agent=agent, build=build)

    page = root.get(page_of(agent))

    for row in (job, build, version, deployment):
        assert page_of(row) in html_of(page)
    assert "no Dockerfile" in text_of(page)
    assert '<a href="http://127.0.0.1:20001/"' in html_of(page)


def test_the_address_of_an_agent_that_is_ended_is_no_link(root: Client) -> None:
    address = "http://127.0.0.1:20001/"
    stopped = make_agent(url=address, status="stopped")
    deleted = make_agent(url=address, deleted_at=timezone.now())

    for agent, words in ((stopped, "(reserved)"), (deleted, "(gone)")):
        page = root.get(page_of(agent))
        assert f"{address} {words}" in text_of(page)
        assert f'href="{address}"' not in html_of(page)


def test_a_deployment_is_called_by_its_agent_and_version(root: Client) -> None:
    agent = make_agent(name="search-api")
    build = make_build(agent, version_tag="2.3.1")
    ended = AgentDeployment.objects.create(
        agent=agent, build=build, status="stopped", service_url="http://127.0.0.1:9/"
    )

    page = root.get(page_of(ended))

    assert "<h2>search-api 2.3.1</h2>" in html_of(page)
    assert str(agent.pk) + " stopped" not in text_of(page)
    assert 'href="http://127.0.0.1:9/"' not in html_of(page)
    assert "2.3.1" in text_of(root.get("/admin/buildqueue/agentdeployment/"))


def test_users_of_another_kind_have_names_too(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Agent, "USERNAME_FIELD", "name", raising=False)
    monkeypatch.setattr(people, "get_user_model", lambda: Agent)
    user = make_agent(name="by-uuid")

    assert people.names([str(user.pk), "1", "x", "", None]) == {str(user.pk): "by-uuid"}
    assert people.keys_of("by-uuid") == [str(user.pk)]
    assert people.keys_of("nobody") == []


def test_lists_name_all_owners_by_one_query(root: Client) -> None:
    def fill(name: str) -> None:
        key = str(make_user(name).pk)
        make_agent(owner_id=key)
        make_connector(owner_id=key)

    fill("first")
    make_agent(owner_id="elsewhere")
    for model in ("agent", "mcpconnector"):
        with CaptureQueriesContext(connection) as few:
            root.get(f"/admin/buildqueue/{model}/")
        fill(f"second-{model}")
        fill(f"third-{model}")
        with CaptureQueriesContext(connection) as many:
            page = text_of(root.get(f"/admin/buildqueue/{model}/"))

        assert len(many) == len(few)
        assert "first (" in page
        assert f"third-{model} (" in page
    assert "elsewhere" in text_of(root.get(AGENTS))


def test_an_agents_page_costs_the_same_however_much_belongs_to_it(root: Client) -> None:
    small, large = make_agent(), make_agent()
    for agent, number in ((small, 1), (large, 14)):
        for _ in range(number):
            make_build(agent, job=make_job(agent=agent))
    root.get(page_of(small))
    with CaptureQueriesContext(connection) as few:
        root.get(page_of(small))
    with CaptureQueriesContext(connection) as many:
        page = root.get(page_of(large))

    assert len(many) == len(few)
    assert f"/admin/buildqueue/agentbuild/?agent={large.pk}" in html_of(page)


def test_what_the_reader_may_not_see_is_not_on_an_agents_page(login: Login) -> None:
    agent = make_agent()
    make_job("failed", agent=agent, error_msg="not for everybody")

    page = text_of(login("view_agent").get(page_of(agent)))

    assert "not for everybody" not in page


def test_of_secrets_only_names_are_shown(root: Client) -> None:
    agent = make_agent(secrets_env={"API_KEY": "gAAAAciphertext"})
    connector = make_connector(
        build_secrets_env={"DB": "gAAAAciphertext"},
        headers={"X-Key": "gAAAAciphertext"},
    )

    assert "API_KEY" in text_of(root.get(page_of(agent)))
    assert "DB, X-Key" in text_of(root.get(page_of(connector)))
    for row in (agent, connector):
        assert "ciphertext" not in html_of(root.get(page_of(row)))


@pytest.mark.parametrize(
    ("act", "permission"), [("stop", "stop_agent"), ("retire", "delete_agent")]
)
def test_stop_and_delete_need_their_permission(
    login: Login, act: str, permission: str
) -> None:
    agent = make_agent()
    other = {"stop": "delete_agent", "retire": "stop_agent"}[act]
    viewer = login("view_agent", "change_agent", other)
    asked = {"id": str(agent.pk), "reason": "because"}

    assert viewer.post(act_url(act, "agent"), asked).status_code == 403
    assert Client().post(act_url(act, "agent"), asked).status_code == 302
    agent.refresh_from_db()
    assert agent.deleted_at is None

    allowed = login("view_agent", permission)
    assert allowed.get(act_url(act, "agent"), {"id": str(agent.pk)}).status_code == 200
    assert allowed.post(act_url(act, "agent"), asked).status_code == 302


def test_a_deleted_agent_keeps_its_page_and_leaves_the_list(root: Client) -> None:
    agent = make_agent(name="gone")

    root.post(act_url("retire", "agent"), {"id": str(agent.pk), "reason": "moved"})

    agent.refresh_from_db()
    assert agent.deleted_at is not None
    assert page_of(agent) not in html_of(root.get(AGENTS))
    assert page_of(agent) in html_of(root.get(AGENTS, {"deleted": "all"}))
    assert "deleted" in text_of(root.get(page_of(agent)))
    assert act_url("stop", "agent") not in html_of(root.get(page_of(agent)))


def test_the_stock_deletion_stays_closed(root: Client) -> None:
    agent = make_agent()

    root.post(
        AGENTS,
        {"action": "delete_selected", "_selected_action": str(agent.pk), "post": "yes"},
    )

    assert root.post(f"{AGENTS}{agent.pk}/delete/", {"post": "yes"}).status_code == 403
    assert Agent.objects.filter(pk=agent.pk, deleted_at__isnull=True).exists()


@pytest.mark.parametrize(
    "model", ["agentbuild", "mcpconnectorbuild", "agentversion", "agentdeployment"]
)
def test_lists_cost_the_same_for_few_rows_and_for_many(
    root: Client, model: str
) -> None:
    def fill() -> None:
        agent, connector = make_agent(), make_connector()
        build = make_build(agent, job=make_job(agent=agent))
        AgentVersion.objects.create(agent=agent, version="1.0.0")
        AgentDeployment.objects.create(agent=agent, build=build)
        McpConnectorBuild.objects.create(
            connector=connector, owner_id="1", version_tag="1"
        )

    fill()
    root.get(f"/admin/buildqueue/{model}/")
    with CaptureQueriesContext(connection) as few:
        root.get(f"/admin/buildqueue/{model}/")
    for _ in range(5):
        fill()
    with CaptureQueriesContext(connection) as many:
        root.get(f"/admin/buildqueue/{model}/")

    assert len(many) == len(few)


def test_each_page_opens(root: Client) -> None:
    agent, connector = make_agent(), make_connector()
    build = make_build(agent, github_url="https://u:hunter2@git.example/a")
    rows = [
        build,
        AgentVersion.objects.create(agent=agent, version="1.0.0", build=build),
        AgentDeployment.objects.create(
            agent=agent, build=build, last_logs="\x1b[31mboom <b>\n"
        ),
        McpConnectorBuild.objects.create(
            connector=connector, owner_id="1", version_tag="1"
        ),
        Worker.objects.create(host="h", pid=1, slots=1, version="1"),
    ]

    pages = [text_of(root.get(page_of(row))) for row in rows]

    assert all("hunter2" not in page for page in pages)
    assert "boom <b>" in pages[2]
