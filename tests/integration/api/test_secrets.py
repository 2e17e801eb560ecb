"""Are secrets and environments set and named, and their values told to nobody?"""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser
from django.test import Client

from buildqueue.builds import secrets
from buildqueue.models import Agent, BuildJob, OwnerSecret

from ...factories import make_agent, make_user
from .conftest import assert_problem
from .roles import GIT, logged_in
from .test_deploying import post

pytestmark = pytest.mark.django_db
HUSH = "hush-5f2e1c"


def put(client: Client, name: str, body: Any) -> Any:
    address = f"/api/secrets/{name}"
    return client.put(address, body, content_type="application/json")


def patch(client: Client, agent: Agent, body: Any) -> Any:
    address = f"/api/agents/{agent.pk}/env"
    return client.patch(address, body, content_type="application/json")


def test_a_secret_is_set_named_and_forgotten(
    as_owner: Client, owner: AbstractUser
) -> None:
    made = put(as_owner, "TOKEN", {"value": HUSH})
    listed = as_owner.get("/api/secrets")

    assert made.status_code == 200, made.text
    assert [each["name"] for each in listed.json()["secrets"]] == ["TOKEN"]
    assert secrets.read_secret(str(owner.pk), "TOKEN") == HUSH
    assert HUSH not in made.text + listed.text
    gone = as_owner.delete("/api/secrets/TOKEN")
    assert gone.status_code == 204
    assert_problem(as_owner.delete("/api/secrets/TOKEN"), 404, "secret_not_found")


def test_a_secret_is_its_owners_alone(as_owner: Client) -> None:
    put(as_owner, "TOKEN", {"value": HUSH})
    root = logged_in(make_user("root", is_staff=True, is_superuser=True))

    assert root.get("/api/secrets").json() == {"secrets": []}
    assert_problem(root.delete("/api/secrets/TOKEN"), 404, "secret_not_found")
    assert OwnerSecret.objects.count() == 1


@pytest.mark.parametrize(
    ("name", "body", "status", "code"),
    [
        ("TOKEN", {}, 422, "missing_field"),
        ("TOKEN", {"value": 5}, 422, "invalid_field"),
        ("TOKEN", {"value": [HUSH]}, 422, "invalid_field"),
        ("TOKEN", {"value": ""}, 400, "invalid_secret"),
        ("TOKEN", {"value": f"{HUSH}\x00"}, 400, "invalid_secret"),
        ("TOKEN", {"value": f"{HUSH}\ud800"}, 400, "invalid_secret"),
        ("TOKEN", {"value": HUSH * 4000}, 400, "invalid_secret"),
        ("TOKEN", {"value": HUSH, "name": "x"}, 422, "unknown_field"),
        ("a-b", {"value": HUSH}, 400, "invalid_secret"),
        ("%00", {"value": HUSH}, 400, "invalid_secret"),
    ],
)
def test_a_secret_that_cannot_be_kept_is_refused_without_its_value(
    name: str, body: Any, status: int, code: str, as_owner: Client
) -> None:
    response = put(as_owner, name, body)

    assert_problem(response, status, code)
    assert HUSH not in response.text
    assert not OwnerSecret.objects.exists()


def test_an_environment_is_changed_and_its_names_are_told(
    as_owner: Client, owner: AbstractUser
) -> None:
    agent = make_agent(str(owner.pk))

    first = patch(as_owner, agent, {"COLOR": HUSH, "SIZE": "5"})
    second = patch(as_owner, agent, {"SIZE": None, "LINES": "a\nb"})

    assert first.json() == {"env": ["COLOR", "SIZE"]}
    assert second.json() == {"env": ["COLOR", "LINES"]}
    shown = as_owner.get(f"/api/agents/{agent.pk}/env")
    assert shown.json() == second.json()
    assert HUSH not in first.text + second.text + shown.text
    agent.refresh_from_db()
    found = secrets.decrypt_env(str(owner.pk), agent.secrets_env)
    assert found == {"COLOR": HUSH, "LINES": "a\nb"}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"PORT": HUSH}, 400, "invalid_environment"),
        ({"A B": HUSH}, 400, "invalid_environment"),
        ({"COLOR": 5}, 400, "invalid_environment"),
        ({"COLOR": {"deep": HUSH}}, 400, "invalid_environment"),
        ({"COLOR": f"{HUSH}\x00"}, 400, "invalid_environment"),
        ({"GOOD": "x", "LD_PRELOAD": HUSH}, 400, "invalid_environment"),
        ({f"N{n}": HUSH for n in range(101)}, 400, "invalid_environment"),
        ([HUSH], 400, "malformed_json"),
        ("x", 400, "malformed_json"),
    ],
)
def test_an_environment_that_cannot_be_used_changes_nothing(
    body: Any, status: int, code: str, as_owner: Client, owner: AbstractUser
) -> None:
    agent = make_agent(str(owner.pk))

    response = patch(as_owner, agent, json.dumps(body))

    assert_problem(response, status, code)
    assert HUSH not in response.text
    agent.refresh_from_db()
    assert agent.secrets_env == {}


def test_a_form_is_no_environment(as_owner: Client, owner: AbstractUser) -> None:
    agent = make_agent(str(owner.pk))

    response = as_owner.patch(
        f"/api/agents/{agent.pk}/env",
        "COLOR=blue",
        content_type="application/x-www-form-urlencoded",
    )

    assert_problem(response, 415, "unsupported_media_type")


def test_what_is_secret_is_told_in_no_answer_error_or_log(
    as_owner: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever is asked with it, well or badly formed."""
    body = {"name": "greeter", "url": GIT, "token": HUSH, "env": {"KEY": HUSH}}
    with caplog.at_level(logging.DEBUG):
        answers = [
            post(as_owner, "/api/agents/clone", body),
            post(as_owner, "/api/agents/clone", body | {"replicas": "x"}),
            post(as_owner, "/api/agents/clone", body | {"env": {"PORT": HUSH}}),
            post(as_owner, "/api/agents/clone", body | {"token": f"{HUSH} {HUSH}"}),
            post(as_owner, "/api/agents/clone", body | {"token": [HUSH]}),
            post(
                as_owner, "/api/agents/clone", body | {"url": f"https://x:{HUSH}@y/z"}
            ),
            post(as_owner, "/api/agents/clone", json.dumps(body)[:-1]),
            post(as_owner, "/api/mcp/connectors/upload-github", body),
            put(as_owner, "TOKEN", {"value": HUSH}),
        ]
    job = BuildJob.objects.filter(kind="github_clone").get()
    answers += [
        as_owner.get(f"/api/jobs/{job.pk}"),
        as_owner.get(f"/api/jobs/{job.pk}/events"),
        as_owner.get(f"/api/agents/{job.agent_id}"),
        as_owner.get("/api/builds"),
        as_owner.get("/api/mcp/connectors"),
        as_owner.get("/api/secrets"),
    ]

    assert [answer for answer in answers if HUSH in answer.text] == []
    ours = [record for record in caplog.records if record.name.startswith("buildqueue")]
    assert [record for record in ours if HUSH in str(record.__dict__)] == []
    assert HUSH not in json.dumps(job.payload)
