"""Is everybody who asks known, and nobody taken for somebody else?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from buildqueue import tokens
from buildqueue.models import ApiToken

from ...factories import make_job
from .conftest import UPLOAD, assert_problem, token_client
from .zips import make_zip

pytestmark = pytest.mark.django_db
AGENTS = "/api/agents"


def test_a_token_is_stored_as_a_digest_only(owner: AbstractUser) -> None:
    token, secret = tokens.make(owner, "laptop")

    token.refresh_from_db()
    stored = " ".join(str(value) for value in vars(token).values())
    assert secret.startswith("bq_")
    assert len(secret) > 40
    assert secret not in stored
    assert secret.startswith(token.prefix)
    assert len(token.prefix) < 12


def test_a_stranger_is_told_how_to_log_in(db: None, client: Client) -> None:
    response = client.get(AGENTS)

    assert_problem(response, 401, "not_authenticated")
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="buildqueue"'


@pytest.mark.parametrize(
    "state",
    [
        "expired",
        "revoked",
        "inactive user",
        "unknown",
        "empty",
        "no prefix",
        "not ascii",
    ],
)
def test_a_token_that_is_not_usable_is_refused(state: str, owner: AbstractUser) -> None:
    past = timezone.now() - timedelta(seconds=1)
    token, secret = tokens.make(owner, "t", past if state == "expired" else None)
    if state == "revoked":
        tokens.revoke(token)
    if state == "inactive user":
        owner.is_active = False
        owner.save()
    secret = {
        "unknown": "bq_unknown",
        "empty": "",
        "no prefix": "secret",
        "not ascii": "bq_\udcff",
    }.get(state, secret)

    response = Client().get(AGENTS, HTTP_AUTHORIZATION=f"Bearer {secret}")

    assert_problem(response, 401, "invalid_token")
    assert 'error="invalid_token"' in response.headers["WWW-Authenticate"]


def test_a_bad_token_is_not_saved_by_a_session(as_owner: Client) -> None:
    response = as_owner.get(AGENTS, headers={"Authorization": "Bearer bq_wrong"})

    assert_problem(response, 401, "invalid_token")


def test_credentials_of_another_kind_are_left_to_others(as_owner: Client) -> None:
    response = as_owner.get(AGENTS, headers={"Authorization": "Basic dXNlcjpwdw=="})

    assert response.status_code == 200


def test_a_session_of_a_user_who_is_no_longer_active_is_refused(
    as_owner: Client, owner: AbstractUser
) -> None:
    owner.is_active = False
    owner.save()

    assert_problem(as_owner.get(AGENTS), 401, "not_authenticated")


def test_the_use_of_a_token_is_noted_once_a_minute(owner: AbstractUser) -> None:
    client = token_client(owner)
    token = ApiToken.objects.get()

    client.get(AGENTS)
    first = ApiToken.objects.get().last_used_at
    assert first is not None
    client.get(AGENTS)
    assert ApiToken.objects.get().last_used_at == first

    earlier = first - timedelta(seconds=61)
    ApiToken.objects.filter(pk=token.pk).update(last_used_at=earlier)
    client.get(AGENTS)
    assert ApiToken.objects.get().last_used_at > earlier


@pytest.fixture
def strict(owner: AbstractUser) -> Client:
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    client.force_login(owner)
    return client


def form() -> dict[str, Any]:
    return {"name": "greeter", "source": SimpleUploadedFile("a.zip", make_zip())}


def test_a_session_may_read_without_a_csrf_token(strict: Client) -> None:
    assert strict.get(AGENTS).status_code == 200


def test_a_session_may_change_nothing_without_a_csrf_token(
    strict: Client, owner: AbstractUser
) -> None:
    job = make_job(owner_id=str(owner.pk))

    upload = strict.post(UPLOAD, form())
    cancel = strict.post(f"/api/jobs/{job.pk}/cancel")

    assert_problem(upload, 403, "csrf_failed")
    assert_problem(cancel, 403, "csrf_failed")
    job.refresh_from_db()
    assert job.status == "pending"


def test_a_session_with_the_csrf_token_in_the_header_may(strict: Client) -> None:
    strict.cookies["csrftoken"] = "a" * 32

    response = strict.post(UPLOAD, form(), headers={"X-CSRFToken": "a" * 32})

    assert response.status_code == 202, response.text


def test_a_session_with_the_csrf_token_in_the_form_may(strict: Client) -> None:
    strict.cookies["csrftoken"] = "a" * 32

    response = strict.post(UPLOAD, form() | {"csrfmiddlewaretoken": "a" * 32})

    assert response.status_code == 202, response.text


def test_a_session_from_another_site_may_not(strict: Client) -> None:
    strict.cookies["csrftoken"] = "a" * 32
    headers = {"X-CSRFToken": "a" * 32, "Origin": "https://evil.example"}

    assert_problem(strict.post(UPLOAD, form(), headers=headers), 403, "csrf_failed")


def test_a_token_needs_no_csrf_token(with_token: Client) -> None:
    assert with_token.post(UPLOAD, form()).status_code == 202
