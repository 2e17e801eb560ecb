"""Is every error a problem with a stable code, also those that nobody foresaw?"""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser
from django.core.exceptions import SuspiciousOperation
from django.db import OperationalError, connection
from django.test import Client

from buildqueue.api import access, answers, errors
from buildqueue.exceptions import (
    DuplicateJob,
    InvalidPayload,
    Refused,
    Rejected,
    Unavailable,
)
from buildqueue.models import BuildJob, JobEvent
from buildqueue.queue import verbs

from ...factories import make_job, make_user
from .conftest import assert_problem

ABSENT = "3f2b8c1e-0000-4000-8000-000000000000"


def failing(error: Exception) -> Any:
    def fail(*args: Any, **options: Any) -> Any:
        raise error

    return fail


@pytest.mark.django_db
@pytest.mark.parametrize("family", ["agents", "builds", "jobs"])
@pytest.mark.parametrize("key", ["x", "1", "undefined", "%00", f"{ABSENT}0", "%F0%9F"])
def test_what_is_no_id_is_told_so(family: str, key: str, as_owner: Client) -> None:
    problem = assert_problem(as_owner.get(f"/api/{family}/{key}"), 404, "invalid_id")

    assert "UUID" in problem["detail"]


@pytest.mark.django_db
@pytest.mark.parametrize("family", ["agents", "builds", "jobs"])
def test_an_id_that_names_nothing_is_told_so(family: str, as_owner: Client) -> None:
    code = f"{family.removesuffix('s')}_not_found"

    assert_problem(as_owner.get(f"/api/{family}/{ABSENT}"), 404, code)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path",
    ["jobs", "jobs/", f"jobs/{ABSENT}/", f"jobs/{ABSENT}/nothing", "agents/a/b/c", ""],
)
def test_an_address_that_is_none_is_told_so(path: str, as_owner: Client) -> None:
    assert_problem(as_owner.get(f"/api/{path}"), 404, "not_found")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", f"jobs/{ABSENT}", {"GET"}),
        ("GET", f"jobs/{ABSENT}/cancel", {"POST"}),
        ("PATCH", f"agents/{ABSENT}", {"GET", "DELETE"}),
        ("DELETE", "agents/upload-and-deploy", {"POST"}),
    ],
)
def test_a_method_that_is_not_possible_is_told_so(
    method: str, path: str, allowed: set[str], as_owner: Client
) -> None:
    response = as_owner.generic(method, f"/api/{path}")

    assert_problem(response, 405, "method_not_allowed")
    assert set(response.headers["Allow"].split(", ")) == allowed


@pytest.mark.django_db
def test_the_schema_is_served_to_everybody(client: Client) -> None:
    schema = client.get("/api/openapi.json").json()

    assert "/api/agents/upload-and-deploy" in schema["paths"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RuntimeError("hush"), 500, "internal_error"),
        (RecursionError("hush"), 500, "internal_error"),
        (OperationalError("hush"), 503, "database_unavailable"),
        (SuspiciousOperation("hush"), 400, "bad_request"),
        (Rejected("odd", "hush up, this is for you", detail="x"), 400, "odd"),
        (Unavailable("later", "hush up, this is for you"), 503, "later"),
        (Refused("full", "hush up, this is for you", status=429), 429, "full"),
        (DuplicateJob("hush", None), 409, "duplicate_job"),
        (InvalidPayload("hush", {"a": "is wrong"}), 422, "invalid_payload"),
    ],
)
def test_every_exception_is_told_as_a_problem(
    error: Exception,
    status: int,
    code: str,
    as_owner: Client,
    owner: AbstractUser,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(access, "job", failing(error))

    with caplog.at_level(logging.ERROR):
        response = as_owner.get(f"/api/jobs/{ABSENT}")

    assert_problem(response, status, code)
    assert ("Retry-After" in response.headers) == (status in (429, 503))
    logged = [record for record in caplog.records if record.name == errors.__name__]
    assert bool(logged) == (status >= 500)
    if status == 500:
        assert "hush" not in response.text
        assert logged[0].exc_info
        assert logged[0].exc_info[1] is error


@pytest.mark.django_db
def test_an_exception_while_the_token_is_looked_up_is_told_as_a_problem(
    with_token: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from buildqueue import tokens

    monkeypatch.setattr(tokens, "find", failing(OperationalError("gone")))

    assert_problem(with_token.get("/api/agents"), 503, "database_unavailable")


@pytest.mark.django_db
def test_members_of_a_refusal_never_hide_the_standard_ones() -> None:
    refused = Refused("odd", "a sentence", extra={"status": 1, "code": "x", "more": 2})

    problem = errors.problem_of(refused)

    from django.test import RequestFactory

    response = problem.response(RequestFactory().get("/api/agents"))
    assert (response.status_code, b'"more": 2' in response.content) == (400, True)
    assert b'"code": "odd"' in response.content


@pytest.mark.django_db
@pytest.mark.parametrize("debug", [True, False])
def test_debug_changes_no_answer(
    debug: bool, settings: Any, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DEBUG = debug
    monkeypatch.setattr(access, "job", failing(RuntimeError("hush")))

    response = as_owner.get(f"/api/jobs/{ABSENT}")

    assert_problem(response, 500, "internal_error")
    assert "hush" not in response.text


def test_an_error_rolls_the_transaction_of_the_request_back(
    committed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host with ATOMIC_REQUESTS: an answer is no exception, and would be committed."""
    owner = make_user()
    job = make_job(owner_id=str(owner.pk))
    client = Client(raise_request_exception=False)
    client.force_login(owner)
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    monkeypatch.setattr(answers, "send_job", failing(RuntimeError("too late")))

    response = client.post(f"/api/jobs/{job.pk}/cancel")

    assert_problem(response, 500, "internal_error")
    assert BuildJob.objects.get().status == "pending"
    assert not JobEvent.objects.exists()


def test_a_success_under_atomic_requests_is_committed(
    committed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = make_user()
    job = make_job(owner_id=str(owner.pk))
    client = Client()
    client.force_login(owner)
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)

    assert client.post(f"/api/jobs/{job.pk}/cancel").status_code == 200

    assert BuildJob.objects.get().status == "cancelled"
    assert verbs.allowed(BuildJob.objects.get()) == ["retry"]


def test_an_address_that_is_none_is_told_so_however_it_is_asked() -> None:
    strict = Client(enforce_csrf_checks=True)

    for method in ("get", "post", "put", "patch", "delete"):
        answer = getattr(strict, method)("/api/agents/none/such")
        assert answer.status_code == 404, method
        assert answer["Content-Type"].startswith("application/problem+json")
