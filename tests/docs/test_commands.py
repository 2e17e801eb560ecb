"""Is every verb of the build system documented with all that it takes, and no other?"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from tests.integration.management.verbs import all_verbs, arguments

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "commands.md").read_text()
VERBS = all_verbs()
LINKED = re.compile(r"\[(repository|limits|environment)\]")


def _rows() -> dict[tuple[str, str], str]:
    """Return the first cell of each verb's row."""
    cells = re.findall(r"^\| (`(\w+) ([\w-]+).*?) (?<!\\)\| ", PAGE, re.M)
    return {(noun, verb): cell for cell, noun, verb in cells if (noun, verb) in VERBS}


def _shared() -> dict[str, set[str]]:
    """Return the options that stand under a common name."""
    rows = re.findall(r"^\| (`--.+) \| (repository|limits|environment) \|", PAGE, re.M)
    found: dict[str, set[str]] = {}
    for cell, group in rows:
        found.setdefault(group, set()).update(re.findall(r"--[\w-]+", cell))
    return found


ROWS, SHARED = _rows(), _shared()


@pytest.mark.parametrize(("noun", "verb"), VERBS, ids=" ".join)
def test_a_verb_is_documented_with_all_that_it_takes(noun: str, verb: str) -> None:
    cell = ROWS[noun, verb]
    groups = (SHARED[name] for name in LINKED.findall(cell))
    written = set(re.findall(r"--[\w-]+", cell)).union(*groups)
    positional = re.findall(r"[A-Z]{3,}", re.sub(r"--\S+ \S+", "", cell))
    taken = list(arguments(VERBS[noun, verb]))

    assert written == {option for action in taken for option in action.option_strings}
    assert [word.lower() for word in positional] == [
        action.dest for action in taken if not action.option_strings
    ]


@pytest.mark.parametrize(("noun", "verb"), VERBS, ids=" ".join)
def test_what_may_be_left_out_is_written_so(noun: str, verb: str) -> None:
    cell = ROWS[noun, verb]
    needed = {
        action.option_strings[0]
        for action in arguments(VERBS[noun, verb])
        if action.required and action.option_strings
    }
    written = set(re.findall(r"(?<!\[)(?<!\|)(--[\w-]+)", cell))
    grouped = {
        option
        for group in VERBS[noun, verb]._mutually_exclusive_groups
        if group.required
        for action in group._group_actions
        for option in action.option_strings
    }
    shared = set().union(*(SHARED[name] for name in LINKED.findall(cell)))

    assert written - grouped == needed - shared


def test_no_verb_is_documented_that_does_not_exist() -> None:
    nouns = "|".join(sorted({noun for noun, _verb in VERBS}))
    documented = re.findall(rf"^\| `({nouns}) ([\w-]+)", PAGE, re.M)

    assert sorted(documented) == sorted(VERBS)
    assert not any(
        isinstance(action, argparse._VersionAction)
        for parser in VERBS.values()
        for action in arguments(parser)
    )
