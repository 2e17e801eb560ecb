"""Is a token's secret shown once, to who made it, and of no use after its end?"""

from __future__ import annotations

import re

from django.contrib.auth import get_user_model
from django.test import Client

from buildqueue import tokens
from buildqueue.models import ApiToken
from tests.factories import make_user

from .conftest import Login
from .pages import act_url, html_of, page_of, text_of

TOKENS = "/admin/buildqueue/apitoken/"


def made_by(client: Client, **fields: str) -> tuple[ApiToken, str]:
    page = html_of(client.post(f"{TOKENS}add/", {"name": "ci", **fields}))
    found = re.search(r'value="(bq_[^"]+)"', page)
    assert found, page
    return ApiToken.objects.latest("pk"), found[1]


def test_a_new_tokens_secret_works_and_is_never_shown_again(login: Login) -> None:
    client = login("view_apitoken", "add_apitoken", name="ada")

    token, secret = made_by(client)

    found = tokens.find(secret)
    assert found is not None
    assert found.user.get_username() == "ada"
    for address in (TOKENS, page_of(token), f"{TOKENS}{token.pk}/history/"):
        assert secret not in html_of(client.get(address))
        assert token.digest not in html_of(client.get(address))


def test_the_answer_with_the_secret_is_not_kept_by_any_cache(login: Login) -> None:
    client = login("view_apitoken", "add_apitoken")

    answer = client.post(f"{TOKENS}add/", {"name": "ci"})

    assert "no-store" in answer["Cache-Control"]
    assert "bq_" not in str(client.cookies)
    assert not any("bq_" in str(v) for v in client.session.values())


def test_nobody_but_a_superuser_makes_a_token_for_another(
    login: Login, root: Client
) -> None:
    victim = get_user_model().objects.get(username="root")
    client = login("view_apitoken", "add_apitoken", name="ada")

    mine, _ = made_by(client, user=str(victim.pk))
    theirs, _ = made_by(root, user=str(mine.user_id))

    assert mine.user.get_username() == "ada"
    assert theirs.user.get_username() == "ada"


def test_only_the_own_tokens_are_seen_and_revoked(login: Login, root: Client) -> None:
    theirs, secret = tokens.make(make_user("victim"), "theirs")
    client = login("view_apitoken", "change_apitoken", name="ada")

    client.post(act_url("revoke", "apitoken"), {"id": str(theirs.pk)})

    assert page_of(theirs) not in html_of(client.get(TOKENS))
    assert client.get(page_of(theirs)).status_code == 302
    assert tokens.find(secret) is not None
    assert page_of(theirs) in html_of(root.get(TOKENS))


def test_a_revoked_token_is_of_no_use(root: Client) -> None:
    token, secret = tokens.make(make_user("ada"), "ci")

    asked = {"id": str(token.pk), "reason": "leaked"}
    answer = root.post(act_url("revoke", "apitoken"), asked, follow=True)

    assert tokens.find(secret) is None
    assert "The token is revoked." in text_of(answer)
    assert "leaked" in text_of(root.get(f"{TOKENS}{token.pk}/history/"))
    assert "Revoke: it was revoked already" in html_of(root.get(page_of(token)))


def test_revoking_needs_its_permission(login: Login) -> None:
    client = login("view_apitoken", "add_apitoken", name="ada")
    token, secret = made_by(client)

    answer = client.post(act_url("revoke", "apitoken"), {"id": str(token.pk)})

    assert answer.status_code == 403
    assert tokens.find(secret) == token


def test_a_token_cannot_be_edited(root: Client) -> None:
    token, _ = tokens.make(make_user("ada"), "ci")

    assert root.post(page_of(token), {"name": "other"}).status_code == 403


def test_a_token_that_would_be_dead_from_birth_is_not_made(login: Login) -> None:
    client = login("view_apitoken", "add_apitoken")
    past = {"expires_at_0": "2020-01-01", "expires_at_1": "00:00:00"}

    page = html_of(client.post(f"{TOKENS}add/", {"name": "ci", **past}))

    assert "still to come" in page
    assert not ApiToken.objects.exists()
