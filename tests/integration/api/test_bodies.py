"""Is a body that cannot be read, or holds what nobody knows, refused on every address?"""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser
from django.test import Client

from buildqueue.api.reading import DEEPEST

from .conftest import assert_problem
from .roles import Things, make_things, state
from .test_access import ADDRESSES

pytestmark = pytest.mark.django_db
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
CHANGING = [(m, t) for m, t in ADDRESSES if m in ("post", "put", "patch")]
AGENT_LESS = [
    ("post", "/api/agents/clone"),
    ("post", "/api/github/clone"),
    ("post", "/api/mcp/connectors/upload-github"),
    ("put", "/api/secrets/TOKEN"),
]
# How it is hostile -> body, content type, and what it may be answered with.
HOSTILE: dict[str, tuple[str | bytes, str, set[int]]] = {
    "no JSON": ("{", JSON, {400}),
    "no UTF-8": (b'{"reason": "\xff"}', JSON, {400}),
    "no object": ("[1]", JSON, {400}),
    "a number": ("1" * 5000, JSON, {400}),
    "no number": ('{"reason": NaN}', JSON, {400}),
    "deep": ("[" * 200_000, JSON, {400}),
    "deep inside": (
        '{"reason":' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1),
        JSON,
        {400},
    ),
    "too long": ('{"reason": "' + "x" * 3_000_000 + '"}', JSON, {413}),
    "twice": ('{"reason": "a", "reason": "b"}', JSON, {422}),
    "unknown": ('{"no_such_field": 1}', JSON, {422}),
    "an odd name": ('{"\\ud800\\u0000": 1}', JSON, {422}),
    "another type": ("<a/>", "application/xml", {415}),
    "called a form": ('{"version": "9.9.9"}', FORM, {415, 422}),
}


@pytest.fixture
def things(owner: AbstractUser) -> Things:
    return make_things(owner)


@pytest.mark.parametrize("how", HOSTILE)
def test_a_hostile_body_is_refused_everywhere_and_changes_nothing(
    how: str, things: Things, as_owner: Client
) -> None:
    body, content_type, statuses = HOSTILE[how]
    before = state()
    wrong: dict[str, Any] = {}

    for method, template in CHANGING + AGENT_LESS:
        address = things.address(template)
        # An environment has names of the client's own.
        allowed = statuses | ({400} if template.endswith("/env") else set())
        response = as_owner.generic(method.upper(), address, body, content_type)
        if response.status_code not in allowed:
            wrong[f"{method} {template}"] = response.text
        else:
            assert_problem(response, response.status_code, response.json()["code"])

    assert wrong == {}
    assert state() == before


def test_a_form_that_is_not_post_is_read_as_well(
    things: Things, with_token: Client
) -> None:
    response = with_token.put(
        f"/api/agents/{things.agent.pk}/grants",
        "public=true",
        content_type="application/x-www-form-urlencoded",
    )

    assert response.status_code == 200, response.text
    assert response.json()["grants"][-1]["type"] == "public"


def test_a_session_needs_the_token_against_csrf_for_every_change(
    things: Things, owner: AbstractUser
) -> None:
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    client.force_login(owner)
    before = state()

    for method, template in ADDRESSES:
        if method != "get":
            sent = things.request(method, template)
            response = getattr(client, method)(things.address(template), **sent)
            assert_problem(response, 403, "csrf_failed")

    assert state() == before
