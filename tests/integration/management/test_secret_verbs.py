"""Can secrets be kept, removed and rotated from a shell, and is no value ever shown?"""

from __future__ import annotations

import getpass

import pytest
from django.contrib.auth.models import AbstractUser

from buildqueue.builds import secrets
from buildqueue.models import OwnerSecret
from tests.support.commands import answered, documented_refusal, refusal, run

from .conftest import Typing

SECRET = "xyzzy-plugh"
MINE = ("--owner", "anna")


def value_of(owner: AbstractUser, name: str) -> str:
    return secrets.read_secret(str(owner.pk), name)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (SECRET, SECRET),
        (f"{SECRET}\n", SECRET),
        (f"{SECRET}\r\n", SECRET),
        ("one\ntwo\n\n", "one\ntwo\n"),
        (f" {SECRET} ", f" {SECRET} "),
    ],
)
def test_a_secret_is_piped_in_without_the_end_of_its_last_line(
    sent: str, kept: str, anna: AbstractUser, piped: Typing
) -> None:
    piped(sent)

    told = run("secret", "set", "forge", *MINE)

    assert told == "forge is set\n"
    assert value_of(anna, "forge") == kept


def test_a_secret_is_typed_unseen_on_a_terminal(
    anna: AbstractUser, piped: Typing, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped(is_terminal=True)
    monkeypatch.setattr(getpass, "getpass", lambda prompt: SECRET)

    run("secret", "set", "forge", *MINE)

    assert value_of(anna, "forge") == SECRET


def test_a_secret_comes_from_the_commands_own_environment(
    anna: AbstractUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET", SECRET)

    told = answered("secret", "set", "forge", *MINE, "--from-env", "MY_SECRET")

    assert told == {"status": "done", "owner_id": str(anna.pk), "name": "forge"}
    assert value_of(anna, "forge") == SECRET


@pytest.mark.parametrize("sent", [b"", b"\n", b"x" * 70_000, b"a\0b"])
def test_a_value_that_cannot_be_kept_is_refused(
    sent: bytes, anna: AbstractUser, piped: Typing
) -> None:
    piped(sent)

    refusal("secret", "set", "forge", *MINE)

    assert not OwnerSecret.objects.exists()


def test_names_and_times_are_listed_and_nothing_else(anna: AbstractUser) -> None:
    for name in ("forge", "api"):
        secrets.set_secret(str(anna.pk), name, SECRET)

    told = answered("secret", "list", *MINE)
    text = run("secret", "list", *MINE)

    assert [sorted(each) for each in told["secrets"]] == [
        ["created_at", "name", "updated_at"]
    ] * 2
    assert [line.split()[0] for line in text.splitlines()] == ["name", "api", "forge"]
    assert SECRET not in text + str(told)


def test_a_secret_is_removed_when_that_is_meant(
    anna: AbstractUser, piped: Typing
) -> None:
    secrets.set_secret(str(anna.pk), "forge", SECRET)
    remove = ("secret", "remove", "forge", *MINE)

    assert refusal(*remove).returncode == 2
    assert value_of(anna, "forge") == SECRET
    assert run(*remove, "--yes") == "forge is removed\n"
    assert "no secret 'forge'" in str(refusal(*remove, "--yes"))


def test_a_rotation_is_told_in_numbers(anna: AbstractUser) -> None:
    secrets.set_secret(str(anna.pk), "forge", SECRET)

    assert run("secret", "rotate") == "0 rotated, 1 under the newest key already\n"
    assert answered("secret", "rotate") == {
        "status": "done",
        "rotated": 0,
        "current": 1,
        "unreadable": [],
        "busy": [],
    }


def test_a_rotation_that_leaves_something_says_where_and_fails(
    anna: AbstractUser,
) -> None:
    row = OwnerSecret.objects.create(
        owner_id=str(anna.pk), name="forge", encrypted_value="no ciphertext"
    )

    error, printed = documented_refusal("secret", "rotate")

    assert error.returncode == 1
    assert "1 of them are not under the newest key" in str(error)
    assert f"unreadable: ownersecret.encrypted_value {row.pk}" in printed
    assert "no ciphertext" not in printed + str(error)
