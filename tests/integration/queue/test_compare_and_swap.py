"""Does a state change only where it is as it was seen, whoever else writes?"""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import pytest

from buildqueue.exceptions import Refused
from buildqueue.queue.context import Context
from buildqueue.queue.records import compare_and_swap, progress_of, state_of
from tests.factories import make_job
from tests.support.jobs import progress_row
from tests.support.races import race

pytestmark = pytest.mark.usefixtures("committed")


def test_fifty_writers_that_look_again_lose_no_addition(committed: None) -> None:
    job = make_job()
    compare_and_swap(job.pk, {}, {"count": 0, "name": "kept"})

    def add_one(number: int) -> int:
        for tries in itertools.count(1):
            seen = state_of(job.pk)["count"]
            patch = {"count": seen + 1, "by": {str(number): tries}}
            if compare_and_swap(job.pk, {"count": seen}, patch) is not None:
                return tries
        raise AssertionError("unreachable")

    tries = race(50, add_one)

    state = state_of(job.pk)
    assert (state["count"], state["name"]) == (50, "kept")
    assert state["by"] == {str(number): tried for number, tried in enumerate(tries)}


def test_a_stale_expectation_changes_nothing(committed: None) -> None:
    job = make_job()
    compare_and_swap(job.pk, {}, {"count": 1})
    before = progress_row(job)

    assert compare_and_swap(job.pk, {"count": 0}, {"count": 9, "more": 1}) is None

    assert progress_row(job) == before


@pytest.mark.parametrize(
    ("state", "expected", "fits"),
    [
        ({}, {"lease": None}, True),  # a key that is not there fits null
        ({"lease": None}, {"lease": None}, True),
        ({"lease": "a"}, {"lease": None}, False),
        (
            {"files": ["a"]},
            {"files": []},
            False,
        ),  # an empty list is a list, not a joker
        ({"files": []}, {"files": []}, True),
        ({"files": ["a", "b"]}, {"files": ["a"]}, False),  # more is not the same
        ({"files": ["b", "a"]}, {"files": ["a", "b"]}, False),
        ({"files": ["a", "b"]}, {"files": ["a", "b"]}, True),
        ({"mail": {"to": "a", "sent": 1}}, {"mail": {"sent": 1}}, True),
        ({"mail": {"to": "a", "sent": 1}}, {"mail": {"sent": True}}, False),
        ({"mail": {"to": "a"}}, {"mail": {"sent": None}}, True),
        ({"anything": 1}, {}, True),
    ],
)
def test_what_fits_an_expectation(
    committed: None, state: dict[str, Any], expected: dict[str, Any], fits: bool
) -> None:
    job = make_job()
    compare_and_swap(job.pk, {}, state)

    swapped = compare_and_swap(job.pk, expected, {"swapped": True})

    assert swapped == ({**state, "swapped": True} if fits else None)
    assert state_of(job.pk) == ({**state, "swapped": True} if fits else state)


def test_two_writers_of_other_keys_keep_each_others(committed: None) -> None:
    job = make_job()
    patches = [{"a": 1, "deep": {"x": {"a": 1}}}, {"b": 2, "deep": {"x": {"b": 2}}}]

    race(2, lambda number: compare_and_swap(job.pk, {}, patches[number]))

    assert state_of(job.pk) == {"a": 1, "b": 2, "deep": {"x": {"a": 1, "b": 2}}}


def test_a_run_and_a_stranger_keep_each_others_keys(ctx: Context) -> None:
    ctx.checkpoint(state={"mail": {"found": True}})
    compare_and_swap(ctx.job.pk, {}, {"mail": {"read": True}})
    ctx.checkpoint(state={"mail": {"sent": True}})

    assert ctx.state == {"mail": {"found": True, "read": True, "sent": True}}


def test_only_the_owners_job_is_found(committed: None) -> None:
    job = make_job(owner_id="anna")

    with pytest.raises(Refused) as refused:
        compare_and_swap(job.pk, {}, {"mine": True}, owner_id="bert")
    with pytest.raises(Refused) as unknown:
        compare_and_swap(uuid.uuid4(), {}, {"mine": True})

    assert (refused.value.code, unknown.value.code) == ("not_found", "not_found")
    assert progress_of(job.pk) is None
    assert compare_and_swap(job.pk, {}, {"mine": True}, owner_id="anna")


def test_texts_that_postgresql_cannot_keep_are_made_fit(committed: None) -> None:
    job = make_job()

    state = compare_and_swap(job.pk, {}, {"nul \x00": "half \ud800"})

    assert state == state_of(job.pk) == {"nul ␀": "half ?"}


@pytest.mark.parametrize("name", ["nope", None, 5, object()])
def test_a_state_of_no_job_at_all_is_not_found(name: Any, committed: None) -> None:
    with pytest.raises(Refused) as refused:
        compare_and_swap(name, {}, {})

    assert refused.value.code == "not_found"
