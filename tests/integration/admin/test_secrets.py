"""Is a secret of an owner set and deleted in the control room, and never read there?"""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.core import mail
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext

from buildqueue.builds import secrets
from buildqueue.models import OwnerSecret
from tests.factories import make_user

from .builtrows import make_secret
from .conftest import Login
from .pages import act_url, html_of, page_of, text_of

SECRETS = "/admin/buildqueue/ownersecret/"
SET = act_url("set", "ownersecret")
OLD, NEW = "old-hunter2", "new-hunter3"


def give(client: Client, secret: OwnerSecret, value: str = NEW, **more: Any) -> Any:
    asked = {"id": str(secret.pk), "from": "page", "given-value": value}
    return client.post(SET, asked | more, follow=True)


def test_owner_name_and_times_are_shown_and_nothing_else(root: Client) -> None:
    owner = make_user("bob")
    secret = make_secret(str(owner.pk), "GIT_TOKEN", OLD)

    for address in (SECRETS, page_of(secret)):
        page = root.get(address)
        assert "GIT_TOKEN" in text_of(page)
        assert f"bob ({owner.pk})" in text_of(page)
        for hidden in (OLD, secret.encrypted_value):
            assert hidden not in html_of(page)


def test_no_query_reads_the_ciphertext(root: Client) -> None:
    secret = make_secret()
    for address in (SECRETS, page_of(secret), f"{SET}?id={secret.pk}"):
        with CaptureQueriesContext(connection) as asked:
            root.get(address)

        assert "encrypted_value" not in str(asked.captured_queries)


def test_a_new_value_is_taken_and_shown_nowhere(root: Client) -> None:
    secret = make_secret("1", "GIT_TOKEN", OLD)

    answer = give(root, secret, reason="rotated")

    assert secrets.read_secret("1", "GIT_TOKEN") == NEW
    assert "The secret has its new value." in text_of(answer)
    entry = LogEntry.objects.get(object_id=str(secret.pk))
    assert entry.change_message == "Set a new value: rotated"
    for address in (SECRETS, page_of(secret), f"{SECRETS}{secret.pk}/history/"):
        assert NEW not in html_of(root.get(address))


def test_its_field_shows_nothing_even_when_the_form_comes_back(root: Client) -> None:
    secret = make_secret()

    page = html_of(root.get(SET, {"id": str(secret.pk)}))
    again = give(root, secret, value="with\0nul-hunter3")

    assert 'type="password" name="given-value"' in page
    assert 'class="bq-fault"' in html_of(again)
    assert "hunter3" not in html_of(again)


@pytest.mark.parametrize("value", ["", "x" * 40_000])
def test_a_value_that_cannot_be_kept_is_told_at_its_field(
    root: Client, value: str
) -> None:
    secret = make_secret("1", "TOKEN", OLD)

    answer = give(root, secret, value=value)

    assert 'class="bq-fault"' in html_of(answer)
    assert secrets.read_secret("1", "TOKEN") == OLD


def test_spaces_around_a_value_are_kept(root: Client) -> None:
    give(root, make_secret(), value=" two  spaces ")

    assert secrets.read_secret("1", "TOKEN") == " two  spaces "


def test_a_deleted_secret_leads_to_the_list(root: Client) -> None:
    secret = make_secret()
    asked = {"id": str(secret.pk), "from": "page", "reason": "not used"}

    answer = root.post(act_url("remove", "ownersecret"), asked, follow=True)

    assert answer.redirect_chain[-1][0] == SECRETS
    assert "The secret is deleted." in text_of(answer)
    assert not OwnerSecret.objects.exists()
    assert LogEntry.objects.get().change_message == "Delete: not used"


@pytest.mark.parametrize("lookup", ["encrypted_value__startswith", "encrypted_value"])
def test_the_ciphertext_cannot_be_guessed_through_the_lists_address(
    root: Client, lookup: str
) -> None:
    make_secret()

    assert root.get(SECRETS, {lookup: "gAAAA"}).status_code in (302, 400)


def test_there_is_no_form_to_add_or_change_one(root: Client) -> None:
    secret = make_secret("1", "TOKEN", OLD)

    assert root.get(f"{SECRETS}add/").status_code == 403
    for address in (f"{SECRETS}add/", page_of(secret), f"{page_of(secret)}../delete/"):
        root.post(address, {"encrypted_value": NEW, "post": "yes"})
    assert secrets.read_secret("1", "TOKEN") == OLD


def test_a_list_of_many_costs_the_same(root: Client) -> None:
    make_secret(str(make_user("u").pk), "A")
    root.get(SECRETS)
    with CaptureQueriesContext(connection) as few:
        root.get(SECRETS)
    for n in range(5):
        make_secret(str(make_user(f"u{n}").pk), "A")
    with CaptureQueriesContext(connection) as many:
        root.get(SECRETS)

    assert len(many) == len(few)


# How a host is told of errors by mail is changing; what stands in the mail counts here.
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::PendingDeprecationWarning"
)
@pytest.mark.parametrize("debug", [True, False])
def test_the_report_of_an_error_has_no_value(
    login: Login, monkeypatch: pytest.MonkeyPatch, debug: bool
) -> None:
    def breaks(owner_id: str, text: str) -> str:
        kept = text
        raise RuntimeError("no disk: " + str(len(kept)))

    secret = make_secret("1", "TOKEN", OLD)
    client = login(name="root", is_superuser=True)
    client.raise_request_exception = False
    monkeypatch.setattr("buildqueue.builds.secrets.keys.encrypt", breaks)

    with override_settings(DEBUG=debug, ADMINS=[("a", "a@example.org")]):
        answer = give(client, secret)

    told = [str(each.message()) for each in mail.outbox]
    reports = [html_of(answer)] if debug else told
    assert reports
    for report in reports:
        assert "no disk" in report
        assert NEW not in report
