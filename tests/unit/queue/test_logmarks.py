"""Is the mark of a step found where it was written, and only there?"""

from __future__ import annotations

import select
from uuid import UUID

import pytest

from buildqueue.queue import logmarks

LEASE = UUID(int=7)


@pytest.mark.parametrize(
    "step",
    ["build", "a b;c", "100%", "\x1b]0;x\x07", "line\nend", "é漢🙂", "🙂" * 200, "%41"],
)
def test_a_mark_gives_back_the_step_whatever_its_name(step: str) -> None:
    text = f"before{logmarks.mark(LEASE, step)}after"

    assert logmarks.split(text, LEASE) == ("before", step, "after")


def test_the_longest_mark_is_written_in_one_piece() -> None:
    longest = logmarks.mark(LEASE, "🙂" * logmarks.LONGEST_NAME)

    assert len(longest) == logmarks.LONGEST_MARK <= select.PIPE_BUF


@pytest.mark.parametrize(
    "text",
    [
        logmarks.mark(UUID(int=9), "build"),
        logmarks.BEGINNING,
        logmarks.mark(LEASE, "build")[:-1],
        logmarks.mark(LEASE, ""),
        logmarks.mark(LEASE, "x" * 2401),
        logmarks.mark(LEASE, "build").replace(";build", ";bu ild"),
        "==> build\n",
    ],
)
def test_what_is_no_mark_of_this_run_is_text(text: str) -> None:
    assert logmarks.split(text, LEASE) is None


def test_a_mark_of_another_run_does_not_hide_the_one_behind_it() -> None:
    other = logmarks.mark(UUID(int=9), "forged")

    found = logmarks.split(other + "x" + logmarks.mark(LEASE, "build"), LEASE)

    assert found == (other + "x", "build", "")


@pytest.mark.parametrize("forged", ["%00", "%ff%fe", "%ed%a0%80", "x" * 2400])
def test_a_forged_name_is_one_that_can_be_stored(forged: str) -> None:
    text = f"{logmarks.BEGINNING}{LEASE.hex};{forged}{logmarks.END}"

    found = logmarks.split(text, LEASE)

    assert found is not None
    assert 0 < len(found[1]) <= logmarks.LONGEST_NAME
    assert "\x00" not in found[1]
    assert found[1].encode()
