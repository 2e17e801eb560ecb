"""Does anything that looks like a secret get out?"""

from __future__ import annotations

import time
from typing import Any

import pytest

from buildqueue.admin.masking import LONGEST_TEXT, MASK, MAX_DEPTH, masked


@pytest.mark.parametrize(
    "key",
    [
        "secret",
        "client_secret",
        "TOKEN",
        "accessToken",
        "password",
        "db_passwd",
        "passphrase",
        "api_key",
        "apikey",
        "privateKey",
        "AWS_ACCESS_KEY_ID",
        "credentials",
        "Authorization",
        "cookie",
        "bearer",
        "auth",
    ],
)
def test_the_value_of_a_key_that_sounds_secret_is_masked(key: str) -> None:
    assert masked({key: "hunter2"}) == {key: MASK}
    assert masked({"a": [{key: {"deep": ["hunter2"]}}]}) == {"a": [{key: MASK}]}


@pytest.mark.parametrize(
    "key", ["env", "environment", "build_env", "headers", "secrets_env"]
)
def test_of_an_environment_only_the_names_are_shown(key: str) -> None:
    assert masked({key: {"PLAIN": "hunter2"}}) == {key: {"PLAIN": MASK}}
    assert masked({key: ["A=hunter2"]}) == {key: MASK}


@pytest.mark.parametrize(
    "value",
    [
        {"branch": "main", "author": "ada", "keyboard": "qwerty", "n": 3, "ok": True},
        {"token": None, "env": {}, "uses_token": False},
        ["a", 1, None, 2.5],
        "https://git.example/a.git",
        "mail me@example.org",
    ],
)
def test_what_is_no_secret_stays(value: Any) -> None:
    assert masked(value) == value


@pytest.mark.parametrize("user", ["me:hunter2", "hunter2", ":hunter2"])
def test_a_login_inside_an_address_is_masked(user: str) -> None:
    assert masked(f"see https://{user}@git.example/a") == (
        f"see https://{MASK}@git.example/a"
    )


def test_a_value_too_deep_to_look_into_is_masked() -> None:
    value: Any = "hunter2"
    for _ in range(MAX_DEPTH * 100):
        value = [value]

    assert "hunter2" not in str(masked(value))


@pytest.mark.parametrize("piece", ["x", "a://", "a://x", "://", "x:/", "a@", "a.+-"])
def test_a_text_of_a_megabyte_is_looked_through_in_one_go(piece: str) -> None:
    def seconds(length: int) -> float:
        text = piece * (length // len(piece))
        begun = time.process_time()
        masked({"a": text})
        return time.process_time() - begun

    # Twice the text must not take four times as long; what is too short to be measured
    # is as good as nothing.
    short = min(seconds(500_000) for _ in range(3))
    assert min(seconds(1_000_000) for _ in range(3)) < 3 * max(short, 0.05)


def test_a_long_text_is_cut_and_says_so_and_no_login_is_cut_in_two() -> None:
    login = "https://me:hunter2@git.example"
    for before in range(LONGEST_TEXT - len(login), LONGEST_TEXT):
        shown = masked("x" * before + login + "y" * 100)

        assert "hunter2"[:3] not in shown
        assert len(shown) < LONGEST_TEXT + 50
        assert shown.endswith(" characters more)")
    assert masked("x" * LONGEST_TEXT) == "x" * LONGEST_TEXT
