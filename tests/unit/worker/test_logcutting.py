"""Do the pieces of a stream make up what was printed, each of its own step?"""

from __future__ import annotations

from itertools import groupby
from uuid import UUID, uuid4

import pytest

from buildqueue.queue import logmarks
from buildqueue.worker import logcutting
from buildqueue.worker.logcutting import MOST_CHARACTERS, Cutter, Piece

LEASE = UUID(int=7)


def cutter(lease: UUID | None = LEASE) -> Cutter:
    made = Cutter()
    made.begin(lease)
    return made


def marked(step: str) -> bytes:
    return logmarks.mark(LEASE, step).encode()


def joined(pieces: list[Piece]) -> list[tuple[str | None, str]]:
    together = groupby(pieces, key=lambda piece: piece.step)
    return [(step, "".join(piece.text for piece in some)) for step, some in together]


@pytest.mark.parametrize("length", [1, 2, 3, 7, 64, 1000])
def test_reads_of_any_length_give_the_same_steps(length: int) -> None:
    printed = "é no end".encode() + marked("one") + "漢\n".encode()
    printed += marked("two\n%") + b"\x1b[31mred\n" + marked("three") + b"rest"
    cut, pieces = cutter(), list[Piece]()

    for at in range(0, len(printed), length):
        pieces += cut.feed(printed[at : at + length])
        pieces += cut.lines()
    pieces += cut.everything()

    assert joined(pieces) == [
        (None, "é no end"),
        ("one", "漢\n"),
        ("two\n%", "\x1b[31mred\n"),
        ("three", "rest"),
    ]


def test_the_first_half_of_a_mark_waits_behind_a_line_longer_than_a_chunk() -> None:
    cut, mark = cutter(), marked("build")

    pieces = cut.feed(b"x" * (2 * MOST_CHARACTERS) + mark[:20])
    pieces += cut.feed(mark[20:] + b"y\n") + cut.lines()

    assert joined(pieces) == [(None, "x" * (2 * MOST_CHARACTERS)), ("build", "y\n")]


def test_what_only_begins_like_a_mark_is_shown_all_the_same() -> None:
    cut, forged = cutter(), logmarks.BEGINNING + "x" * (3 * MOST_CHARACTERS)

    pieces = cut.feed(forged.encode())

    assert joined(pieces) == [(None, forged)]
    assert cut.text == ""


def test_no_piece_is_longer_than_a_chunk_may_be() -> None:
    cut = cutter()

    pieces = cut.feed("🙂".encode() * (3 * MOST_CHARACTERS)) + cut.everything()

    assert {len(piece.text) <= MOST_CHARACTERS for piece in pieces} == {True}
    assert sum(len(piece.text) for piece in pieces) == 3 * MOST_CHARACTERS


def test_the_marks_of_another_run_stay_in_the_text() -> None:
    cut, other = cutter(uuid4()), marked("build") + b"\n"

    assert cut.feed(other) + cut.lines() == [Piece(other.decode(), None)]


def test_what_marks_without_end_makes_no_rows_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logcutting, "MOST_MARKS", 3)
    cut = cutter()

    pieces = cut.feed((marked("a") + b"x") * 5) + cut.everything()

    last = "x" + (marked("a") + b"x").decode() * 2
    assert pieces == [Piece("x", "a"), Piece("x", "a"), Piece(last, "a")]


def test_a_new_run_begins_without_a_step() -> None:
    cut = cutter()
    cut.feed(marked("build"))

    cut.begin(uuid4())

    assert cut.feed(b"line\n") + cut.lines() == [Piece("line\n", None)]
