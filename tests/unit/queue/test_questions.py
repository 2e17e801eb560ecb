"""Is a question that nobody could answer refused where it is made, and any row read?"""

from __future__ import annotations

from typing import Any

import pytest

from buildqueue.exceptions import NotStorable
from buildqueue.queue import questions
from buildqueue.queue.outcomes import Done, WaitForInput
from buildqueue.queue.questions import Field

FIELDS = {"a": Field()}


@pytest.mark.parametrize(
    "options",
    [
        {"label": None},
        {"help": 5},
        {"required": None},
        {"type": "choice", "choices": (1, 2)},
        {"type": "choice", "choices": ([1],)},
        {"type": "choice", "choices": ["a"]},
        {"choices": None},
    ],
)
def test_a_field_of_other_types_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"field's|required"):
        Field(**options)


@pytest.mark.parametrize(
    ("question", "fields"),
    [
        (None, FIELDS),
        (5, FIELDS),
        ("q", {5: Field()}),
        ("q", {"a": "text"}),
        ("q", [Field()]),
        ("q", None),
    ],
)
def test_a_question_of_other_types_is_refused(question: Any, fields: Any) -> None:
    with pytest.raises(TypeError, match="question"):
        WaitForInput(question=question, fields=fields)


def test_a_question_that_is_too_large_is_refused() -> None:
    with pytest.raises(NotStorable, match="larger than"):
        WaitForInput(question="q" * 5_000_000, fields=FIELDS)


def _nested(depth: int) -> dict[str, Any]:
    return {"a": _nested(depth - 1)} if depth else {}


@pytest.mark.parametrize("result", [[1], "x", 5, True, _nested(300)])
def test_a_result_that_is_no_shallow_object_is_refused(result: Any) -> None:
    with pytest.raises(NotStorable):
        Done(result=result)


def test_a_result_is_what_will_be_read() -> None:
    given: Any = {1: ("a", "\x00")}

    assert Done(result=given).result == {"1": ["a", "␀"]}
    assert Done().result is None


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ({"fields": {"a": None}}, {"a": Field()}),
        ({"fields": {"a": {"type": "bogus", "label": None}}}, {"a": Field()}),
        ({"fields": {"a": {"type": "choice", "choices": []}}}, {"a": Field()}),
        (
            {"fields": {"a": {"type": "choice", "choices": [1, [2]]}}},
            {"a": Field(type="choice", choices=("1", "[2]"))},
        ),
        ({"fields": {"a": {}}, "order": ["b", ["c"], 5, "a"]}, {"a": Field()}),
        ({"fields": {"a": {}}, "order": 5}, {"a": Field()}),
        ({"fields": [1]}, {}),
        ({}, {}),
    ],
)
def test_a_question_that_others_wrote_is_read_as_far_as_it_goes(
    kept: dict[str, Any], expected: dict[str, Field]
) -> None:
    assert questions.fields_of(kept) == expected


def test_a_question_is_read_back_as_it_was_asked() -> None:
    fields = {
        "b": Field(type="choice", choices=("x", "y"), label="B", help="h"),
        "a": Field(type="integer", required=False),
    }

    read = questions.fields_of(questions.stored("q", fields))

    assert read == fields
    assert list(read) == ["b", "a"]
