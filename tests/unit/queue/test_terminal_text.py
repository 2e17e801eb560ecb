"""May a job's output be shown on an operator's terminal?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildqueue.queue.logs import for_terminal


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("plain\ttext", "plain\ttext"),
        ("\x1b[1;32mgreen\x1b[0m", "\x1b[1;32mgreen\x1b[0m"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]52;c;aGk=\x1b\\after", "after"),
        ("\x1b[2J\x1b[1;1Hafter", "after"),
        ("a\rb\x08c\x00", "abc"),
        ("\x9b2Jafter", "2Jafter"),
        ("\x1bcafter", "after"),
    ],
)
def test_colors_pass_and_nothing_else_that_a_terminal_obeys(
    printed: str, shown: str
) -> None:
    assert for_terminal(printed) == shown


@given(st.text(alphabet=st.sampled_from("\x1b[]0;1mJ\x07\\P\x9bab\n"), max_size=60))
def test_no_escape_but_a_color_is_left(printed: str) -> None:
    left = for_terminal(printed)

    for piece in left.split("\x1b")[1:]:
        assert piece.startswith("[")
        assert piece[1:].lstrip("0123456789;").startswith("m")
