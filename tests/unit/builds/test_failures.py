"""Is the reason of a build short, plain, and made of what was said last?"""

from __future__ import annotations

import pytest

from buildqueue.builds.failures import (
    FAILURES,
    MOST_CHARACTERS,
    MOST_LINES,
    last_hint_of,
    reason_of,
)
from buildqueue.exceptions import Rejected


def test_the_words_of_the_error_come_first_then_the_last_lines() -> None:
    error = Rejected("dependency_failed", "pip could not install it")

    told = reason_of(["one", "", "two\n"], error)

    assert told == "pip could not install it\none\ntwo"


def test_a_line_that_the_error_tells_already_is_not_repeated() -> None:
    assert reason_of(["a", "ERROR: no b", "c"], "failed: ERROR: no b") == (
        "failed: ERROR: no b\na\nc"
    )


def test_what_only_a_terminal_understands_is_left_out() -> None:
    lines = [
        "\x1b[31mred\x1b[0m",
        "10%\r50%\rdone\r\n",
        "\x1b]0;title\x07text",
        "a\x00b",
    ]

    assert reason_of(lines, "\x1b[1mfailed") == "failed\nred\ndone\ntext\nab"


def test_the_last_lines_are_kept_when_they_are_many() -> None:
    told = reason_of([f"line {n}" for n in range(1000)], "failed").split("\n")

    assert len(told) == MOST_LINES
    assert told[0] == "failed"
    assert told[-1] == "line 999"
    assert told[1] == f"line {1000 - MOST_LINES + 1}"


@pytest.mark.parametrize("said", ["failed", "x" * 3_990, "x" * 10_000, ""])
def test_long_lines_and_long_words_stay_within_the_limit(said: str) -> None:
    told = reason_of([f"{n} " + "y" * 100_000 for n in range(30)], said)

    assert len(told) <= MOST_CHARACTERS
    assert told.startswith(said[:100])


def test_a_reason_without_lines_is_what_was_said() -> None:
    assert reason_of([], "failed") == "failed"


def test_many_lines_of_the_error_itself_are_cut_to_the_limit() -> None:
    told = reason_of(["last"], "\n".join(f"line {n}" for n in range(100)))

    assert len(told.split("\n")) <= MOST_LINES
    assert told.startswith("line 0\n")


def test_the_hint_of_what_has_ended_promises_no_other_try() -> None:
    for code, failure in FAILURES.items():
        hint = last_hint_of(code) or ""
        assert "tried again" not in hint.split(".")[0], code
        if failure.hint.startswith("It is tried again."):
            assert hint.endswith("Then retry the job."), code
            assert hint[0].isupper()
    assert last_hint_of("of a host's own") is None
