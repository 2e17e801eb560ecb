"""Is everything that a reader may look up written down, and true?"""

from __future__ import annotations

import argparse
import re
from dataclasses import fields
from pathlib import Path

import pytest

from buildqueue import conf
from buildqueue.management.commands import runworker
from buildqueue.states import FINAL, TRANSITIONS, EventKind, JobStatus

DOCS = Path(__file__).parents[2] / "docs"
SETTINGS = (DOCS / "reference" / "settings.md").read_text()
STATES = (DOCS / "explanation" / "states.md").read_text()
COMMANDS = (DOCS / "reference" / "commands.md").read_text()
GLOSSARY = (DOCS / "reference" / "glossary.md").read_text()
OF_DJANGO = {
    "--help",
    "--version",
    "--verbosity",
    "--settings",
    "--pythonpath",
    "--traceback",
    "--no-color",
    "--force-color",
    "--skip-checks",
}


def _rows(page: str) -> dict[str, list[str]]:
    """Return the rows of a page's tables by the code in their first cell."""
    found = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and (named := re.fullmatch(r"`([^`]+)`", cells[0])):
            found[named[1]] = cells[1:]
    return found


def _codes(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", cell))


@pytest.mark.parametrize(
    "field",
    [f for f in fields(conf.Settings) if f.name != "faults"],
    ids=lambda f: f.name,
)
def test_a_setting_is_documented_with_its_default(field: object) -> None:
    name, default = field.name, field.default  # type: ignore[attr-defined]
    row = _rows(SETTINGS)[name.upper()]

    assert row[0] == f"`{default!r}`"
    assert len(row[1]) > 10


def test_no_setting_is_documented_that_does_not_exist() -> None:
    documented = {name for name in _rows(SETTINGS) if name.isupper()}

    assert documented - set(conf.NAMES) == {"USE_TZ", "DATABASES", "STORAGES"}


@pytest.mark.parametrize("status", JobStatus)
def test_a_status_is_explained_and_said_to_end_the_job_or_not(
    status: JobStatus,
) -> None:
    row = _rows(STATES)[status.value]

    assert row[-1] == ("final" if status in FINAL else "open")


@pytest.mark.parametrize("name", TRANSITIONS)
def test_a_transition_is_explained_as_it_is(name: str) -> None:
    transition = TRANSITIONS[name]
    sources, targets, by, summary = _rows(STATES)[name]

    assert _codes(sources) == {status.value for status in transition.sources}
    assert _codes(targets) == {status.value for status in transition.targets}
    assert by == transition.by
    assert summary


def test_nothing_is_explained_that_does_not_exist() -> None:
    assert set(_rows(STATES)) == set(TRANSITIONS) | set(JobStatus.values)


def _options() -> list[str]:
    parser = argparse.ArgumentParser()
    runworker.Command().add_arguments(parser)
    return sorted(
        option
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--") and option not in OF_DJANGO
    )


@pytest.mark.parametrize("option", _options())
def test_an_option_of_runworker_is_documented(option: str) -> None:
    section = COMMANDS.split("## `manage.py runworker`")[1].split("\n## ")[0]

    assert re.search(rf"^\| `{option}[ `]", section, re.M)


def test_the_glossary_says_each_word_once_and_in_order() -> None:
    words = re.findall(r"^\| \*\*([^*]+)\*\*([^|]*)\|", GLOSSARY, re.M)
    alone = [word for word, _ in words]

    assert len(words) == len(set(words)) > 40
    assert alone == sorted(alone)


def test_an_event_of_its_own_is_named_unlike_every_transition() -> None:
    assert set(EventKind.values) & set(TRANSITIONS) == set()
