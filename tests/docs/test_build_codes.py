"""Is every failure of a build known, with words that help?"""

from __future__ import annotations

import ast
import textwrap

import pytest

from buildqueue.builds.failures import FAILURES, PARTS, Failure, engine, hint_of

from .build_codes import PAGE, page
from .raised_codes import Raised, read, scan
from .test_job_codes import PAGE as JOB_CODES

FOUND = scan()
# Caught on the way, where it is known what was asked for: no build ends with them.
ON_THE_WAY = {"git_commit_unadvertised", "git_no_commit", "git_object_gone"}
RAISED = sorted(FOUND.codes.keys() - ON_THE_WAY)


def test_codes_are_found() -> None:
    assert {"archive_bomb", "git_unreachable", "health_timeout", "version_taken"} < set(
        RAISED
    )
    assert set(FOUND.codes) >= ON_THE_WAY


def test_every_code_can_be_followed_to_its_text() -> None:
    assert FOUND.unclear == []


@pytest.mark.parametrize("code", RAISED)
def test_a_code_that_is_raised_is_known(code: str) -> None:
    assert code in FAILURES, f"{FOUND.codes[code]} raises it: say what it means"
    assert hint_of(code) == FAILURES[code].hint


@pytest.mark.parametrize("code", sorted(FAILURES))
def test_a_code_that_is_known_is_raised(code: str) -> None:
    if code in engine.FAILURES:
        assert f"`{code}`" in JOB_CODES
    else:
        assert code in RAISED


@pytest.mark.parametrize("failure", FAILURES.values(), ids=lambda each: each.code)
def test_a_failure_is_told_in_words_that_help(failure: Failure) -> None:
    assert failure.hint[0].isupper()
    assert failure.hint.endswith((".", "?"))
    assert failure.means == failure.means.rstrip(".")
    assert "|" not in failure.means + failure.hint


def test_no_code_is_told_twice() -> None:
    assert sum(len(part) for part in PARTS.values()) == len(FAILURES)


def test_a_code_of_a_host_has_no_hint() -> None:
    assert hint_of("a_code_of_the_host") is None


def test_the_page_is_what_the_table_says() -> None:
    assert PAGE.read_text() == page(), "see tests/docs/build_codes.py"


def found_in(source: str) -> Raised:
    return read({"one.py": ast.parse(textwrap.dedent(source))})


@pytest.mark.parametrize(
    "source",
    [
        "raise Rejected('the_code', 'words')",
        "CODE = 'the_code'\nraise exceptions.Unavailable(CODE, 'words')",
        "def refuse(why, code): raise Refused(code, why)\nrefuse('words', 'the_code')",
        "def one(code): two(code)\ndef two(code): raise Refused(code)\none('the_code')",
        "def one():\n  code = 'the_code' if x else 'other_code'\n  raise Rejected(code)",
        "raise Rejected(error.code or 'the_code', 'words')",
        "FAULTS = (('words', Rejected, 'the_code', 'more words'),)",
        "_GONE = ('the_code', 'words')\nraise Rejected(*_GONE)",
        "Report(healthy=False, code='the_code')",
    ],
)
def test_a_code_is_found_however_it_is_given(source: str) -> None:
    found = found_in(source)

    assert "the_code" in found.codes
    assert found.unclear == []


def test_a_code_that_cannot_be_followed_is_told() -> None:
    assert found_in("raise Rejected(made_up(), 'words')").unclear == [
        "one.py:1: made_up()"
    ]
    assert found_in("raise Rejected(error.code, str(error))").unclear == []
