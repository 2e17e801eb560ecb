"""Who may do what to agents, connectors, secrets, watches and proposals?

Every act of theirs stands in one table, and is posted by who may not and by who may.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.test import Client

from buildqueue.admin.acts import ActingAdmin
from buildqueue.models import (
    Agent,
    AgentVersion,
    BuildJob,
    McpConnector,
    OwnerSecret,
    Proposal,
    SourceWatch,
)
from tests.factories import make_agent, make_connector

from .builtrows import (
    make_active,
    make_deployment,
    make_proposal,
    make_secret,
    make_version,
    make_watch,
)
from .conftest import Login
from .pages import act_url, html_of, page_of

FAMILIES = (Agent, McpConnector, OwnerSecret, SourceWatch, Proposal)


def agent() -> Agent:
    """Make an agent that every act may be done to."""
    found = make_active(make_agent(status="stopped"))
    make_version(found, "1.0.0")
    return found


def running_agent() -> Agent:
    """Make an agent that can be stopped."""
    found = make_active(make_agent(status="running"))
    make_deployment(found, status="running", host="builder-1")
    return found


def connector() -> McpConnector:
    """Make a connector that every act may be done to."""
    address = "http://127.0.0.1:20001/mcp"
    return make_connector(build_status="running", url=address, host="builder-1")


def proposal() -> Proposal:
    """Make a proposal that can be accepted."""
    return make_proposal(make_watch(make_active()))


class Case(NamedTuple):
    """An act, who may do it, and a row to do it to."""

    act: str
    permission: str
    row: Callable[[], Any]
    given: dict[str, str] = {}


CASES = [
    Case("restart", "deploy_agent", agent),
    Case("start", "deploy_agent", agent),
    Case("scale", "deploy_agent", agent, {"given-replicas": "3"}),
    Case("rollback", "deploy_agent", agent, {"given-version": "1.0.0"}),
    Case("stop", "stop_agent", running_agent),
    Case("retire", "delete_agent", agent),
    Case("refresh", "change_mcpconnector", connector),
    Case("retire", "delete_mcpconnector", connector),
    Case("set", "change_ownersecret", make_secret, {"given-value": "new"}),
    Case("remove", "delete_ownersecret", make_secret),
    Case("check", "change_sourcewatch", make_watch),
    Case("pause", "change_sourcewatch", make_watch),
    Case("resume", "change_sourcewatch", lambda: make_watch(status="paused")),
    Case("remove", "delete_sourcewatch", make_watch),
    Case("accept", "decide_proposal", proposal),
    Case("dismiss", "decide_proposal", proposal),
]
PERMISSIONS = {case.permission for case in CASES}
OTHERS = {
    f"{verb}_{m._meta.model_name}" for m in FAMILIES for verb in ("add", "change")
}
each_case = pytest.mark.parametrize(
    "case", CASES, ids=[f"{case.act}-{case.permission}" for case in CASES]
)


def known() -> set[str]:
    """Return the permissions of the families that exist."""
    from django.contrib.auth.models import Permission

    return set(Permission.objects.values_list("codename", flat=True))


def state() -> list[Any]:
    """Return all that an act of the table could change."""
    kept = [list(model.objects.order_by("pk").values()) for model in FAMILIES]
    return [*kept, AgentVersion.objects.count(), BuildJob.objects.count()]


def post(client: Client, case: Case, row: Any) -> int:
    asked = {"id": str(row.pk), "reason": "because", **case.given}
    return client.post(act_url(case.act, row._meta.model_name), asked).status_code


def view(row: Any) -> str:
    return f"view_{row._meta.model_name}"


def test_the_table_has_every_act_with_its_permission(db: None) -> None:
    offered = set()
    for model in FAMILIES:
        of_model = admin.site._registry[model]
        assert isinstance(of_model, ActingAdmin)
        offered |= {(model, act.name, act.permission) for act in of_model.acts}

    assert offered == {
        (type(case.row()), case.act, f"buildqueue.{case.permission}") for case in CASES
    }


@each_case
def test_nobody_without_the_permission_can_do_it(login: Login, case: Case) -> None:
    row = case.row()
    others = sorted((PERMISSIONS | (OTHERS & known())) - {case.permission})
    stranger = login(view(row), *others, name="s")
    before = state()

    assert post(Client(), case, row) == 302
    assert post(stranger, case, row) == 403
    address = act_url(case.act, row._meta.model_name)
    assert stranger.get(address, {"id": str(row.pk)}).status_code == 403
    assert f"{address}?" not in html_of(stranger.get(page_of(row)))
    assert state() == before


# In Django's admin who may change rows of a model may see them.
@pytest.mark.parametrize("case", [c for c in CASES if "change_" not in c.permission])
def test_nobody_who_may_not_see_the_row_can_do_it(login: Login, case: Case) -> None:
    row = case.row()
    blind = login(case.permission, name="b")
    before = state()

    assert post(blind, case, row) == 403
    assert state() == before


@each_case
def test_its_permission_opens_it_and_its_history_keeps_it(
    login: Login, case: Case
) -> None:
    row = case.row()
    allowed = login(view(row), case.permission, name="a")
    address = act_url(case.act, row._meta.model_name)
    before = state()

    assert f"{address}?" in html_of(allowed.get(page_of(row)))
    assert allowed.get(address, {"id": str(row.pk)}).status_code == 200
    assert state() == before  # asked first

    assert post(allowed, case, row) == 302
    assert state() != before
    assert LogEntry.objects.get().change_message.endswith(": because")


@each_case
def test_a_post_without_the_csrf_token_is_refused(login: Login, case: Case) -> None:
    row = case.row()
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = login(view(row), case.permission, name="a").cookies
    before = state()

    assert post(strict, case, row) == 403
    assert state() == before


@pytest.mark.parametrize(
    "address", ["", "{pk}/change/", "{pk}/history/", "{pk}/delete/", "add/"]
)
@pytest.mark.parametrize("model", FAMILIES)
def test_no_page_shows_a_ciphertext(root: Client, model: Any, address: str) -> None:
    marked = "gAAAAABciphertext"
    of_agent = make_agent(secrets_env={"KEY": marked})
    watch = make_watch(of_agent)
    rows = (
        of_agent,
        make_connector(
            build_secrets_env={"KEY": marked},
            headers={"KEY": marked},
            oauth_client_secret=marked,
        ),
        make_secret(),
        watch,
        make_proposal(watch),
    )
    OwnerSecret.objects.update(encrypted_value=marked)
    [row] = [each for each in rows if isinstance(each, model)]

    listed = f"/admin/buildqueue/{model._meta.model_name}/"
    page = root.get(listed + address.format(pk=row.pk))

    assert page.status_code == (403 if address in ("{pk}/delete/", "add/") else 200)
    assert marked not in html_of(page)
