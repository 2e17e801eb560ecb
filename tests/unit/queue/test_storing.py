"""Is what cannot be stored, or not be read again, refused with where it is in what?"""

from __future__ import annotations

import json
from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID, uuid4

import pytest

from buildqueue.exceptions import NotStorable, PermanentError
from buildqueue.queue import storing
from buildqueue.states import JobStatus


def nested(depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(depth):
        made = {"a": made}
    return made


def circle() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def doubled() -> list[Any]:
    """Return few objects that are very many when they are written down."""
    made: list[Any] = []
    for _ in range(60):
        made = [made, made]
    return made


class Mute:
    """What cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"a": object()}, "it.a is <object"),
        ({"a": [1, {2, 3}]}, r"it.a\[1\] is {2, 3}"),
        (Mute(), "it is a Mute"),
        (b"x", "no JSON"),
        (uuid4(), "no JSON"),
        (datetime.now(UTC), "no JSON"),
        (Decimal(1), "no JSON"),
        (float("nan"), "it is nan"),
        ([float("inf")], r"it\[0\] is inf"),
        ({"a": -float("inf")}, "no number"),
        pytest.param(10**5000, "1000 digits", id="huge"),
        (-(10**1000), "1000 digits"),
        ({10**5000: 1}, "1000 digits"),
        ({("a",): 1}, "keys must be text"),
        ({True: 1}, "keys must be text"),
        ({None: 1}, "keys must be text"),
        ({b"a": 1}, "keys must be text"),
        ({1: "a", "1": "b"}, "twice"),
        (nested(101), "deeper than 100"),
        (nested(3000), "deeper than 100"),
        (circle(), "deeper than 100"),
        (doubled(), "larger than 4 MiB"),
        ("x" * (4 * 1024 * 1024), "larger than 4 MiB"),
        ({"ü" * (2 * 1024 * 1024): 1}, "larger than 4 MiB"),
    ],
)
def test_what_is_no_document_is_refused(value: Any, told: str) -> None:
    with pytest.raises(NotStorable, match=told) as refused:
        storing.document(value)

    assert isinstance(refused.value, ValueError)
    assert isinstance(refused.value, PermanentError)
    assert refused.value.code == "not_storable"
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        [],
        {"": 0.5},
        10**999,
        nested(100),
        ["\x1b", "😀", 1e308, -0.0],
        "x" * (4 * 1024 * 1024 - 1),
    ],
)
def test_a_document_is_copied_as_it_is(value: Any) -> None:
    for exact in (False, True):
        copied = storing.document(value, exact=exact)

        assert copied == value
        assert json.loads(json.dumps(copied)) == value


def test_what_json_has_no_word_for_becomes_what_is_read_later() -> None:
    given = OrderedDict(a=(1, MappingProxyType({2: JobStatus.DONE})))

    copied = storing.document(given)

    assert copied == {"a": [1, {"2": "done"}]} == json.loads(json.dumps(copied))
    assert type(copied["a"][1]["2"]) is str


def test_texts_are_kept_as_well_as_can_be_unless_nothing_may_change() -> None:
    given = {"nul \x00": "\ud800"}

    assert storing.document(given) == {"nul ␀": "?"}
    for exact in (given, {"a": "\x00"}, {"\udc80": 1}, {5: 1}):
        with pytest.raises(NotStorable):
            storing.document(exact, exact=True)


def test_what_is_no_json_is_told_as_text_on_demand() -> None:
    identifier = UUID(int=7)

    told = storing.document({"id": identifier}, otherwise=str)

    assert told == {"id": str(identifier)}
    with pytest.raises(NotStorable):
        storing.document({"n": float("nan")}, otherwise=str)


def test_an_object_a_list_and_a_text_are_told_from_anything_else() -> None:
    assert storing.mapping({"a": 1}, "state") == {"a": 1}
    assert storing.sequence((1,), "plan") == [1]
    assert storing.text("a\x00", "title") == "a␀"
    for take, values in (
        (storing.mapping, ([1], "x", None, 5)),
        (storing.sequence, ({}, "x", None, 5)),
        (storing.text, ({}, [1], None, 5, b"x")),
    ):
        for value in values:
            with pytest.raises(NotStorable, match=r"^this must be "):
                take(value, "this")


def test_only_what_names_a_row_is_an_identifier() -> None:
    known = uuid4()

    assert storing.identifier(known) == storing.identifier(str(known)) == known
    for value in ("nope", "", None, 5, b"x", ["a"], object(), "\x00"):
        assert storing.identifier(value) is None
