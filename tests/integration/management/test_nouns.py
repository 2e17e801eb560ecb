"""Can every verb be asked for help and answer a program, and does none take a secret?"""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from buildqueue.management import nouns
from tests.support.commands import documented_refusal, refusal

from .verbs import all_verbs, arguments

VERBS = all_verbs()
SECRET = "xyzzy-plugh"
WITH_ENV = [
    each for each in VERBS if "env_names" in {a.dest for a in arguments(VERBS[each])}
]
WITH_TOKEN = [
    each for each in VERBS if "token_env" in {a.dest for a in arguments(VERBS[each])}
]


def required(parser: argparse.ArgumentParser) -> list[str]:
    """Return arguments that are enough for the parser."""
    given: list[str] = []
    for action in arguments(parser):
        if not action.option_strings and action.nargs != "?":
            given.append("1")
        elif action.required:
            given += [action.option_strings[0], "1"]
    return given


@pytest.mark.parametrize(("noun", "verb"), VERBS, ids=" ".join)
def test_a_verb_says_what_it_does_and_can_answer_a_program(
    noun: str, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        call_command("buildqueue", noun, verb, "--help")

    told = capsys.readouterr().out
    assert ended.value.code == 0
    assert "--json" in told
    assert (VERBS[noun, verb].description or "nothing") in " ".join(told.split())
    for action in arguments(VERBS[noun, verb]):
        assert action.help, action


def test_every_verb_of_agents_leads_somewhere() -> None:
    typed = {verb for noun, verb in VERBS if noun == "agent"}

    assert typed == set(nouns.LOOKING) | set(nouns.ACTING)


def test_the_verbs_that_destroy_ask_and_no_others() -> None:
    asking = {
        each for each in VERBS if "yes" in {a.dest for a in arguments(VERBS[each])}
    }

    assert asking == {
        ("agent", "delete"),
        ("agent", "delete-version"),
        ("connector", "delete"),
        ("secret", "remove"),
        ("watch", "remove"),
    }


@pytest.mark.parametrize(("noun", "verb"), WITH_ENV, ids=" ".join)
def test_a_value_is_never_an_argument_and_not_repeated(noun: str, verb: str) -> None:
    given = required(VERBS[noun, verb])

    error = refusal(noun, verb, *given, "--env", f"NAME={SECRET}")

    assert "can be read by every user of this machine" in str(error)
    assert SECRET not in str(error)
    assert "must be the name of a variable" in str(
        refusal(noun, verb, *given, "--env", "1A")
    )


def test_the_verbs_that_take_variables_and_tokens_are_these() -> None:
    assert {verb for _noun, verb in WITH_ENV} == {"upload", "clone", "update", "env"}
    assert {verb for _noun, verb in WITH_TOKEN} == {"clone", "update", "build"}


@pytest.mark.parametrize(("noun", "verb"), WITH_TOKEN, ids=" ".join)
def test_a_token_comes_by_one_way_only(noun: str, verb: str) -> None:
    given = [*required(VERBS[noun, verb]), "--token-stdin", "--token-env", "TOKEN"]

    assert "not allowed with" in str(refusal(noun, verb, *given))


@pytest.mark.parametrize("given", [["agent"], ["agent", "fly"], ["secret"]])
def test_a_noun_without_a_verb_of_its_own_is_wrong_usage(given: list[str]) -> None:
    with pytest.raises(CommandError, match="VERB"):
        call_command("buildqueue", *given)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("given", "code"),
    [
        (["agent", "show", "nobody"], None),
        (["connector", "show", "nobody"], None),
        (["watch", "check", "0" * 32], None),
        (["proposal", "accept", "0" * 32], None),
        (
            ["secret", "set", "1x", "--owner", "key:1", "--from-env", "HOME"],
            "invalid_secret",
        ),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else None,
)
def test_a_refusal_is_a_document_too(given: Any, code: str | None) -> None:
    error, printed = documented_refusal(*given, "--json")

    document = json.loads(printed)
    assert error.returncode == 1
    assert document["status"] == "refused"
    assert document["error"]["code"] == code
    assert document["error"]["message"] in str(error)
