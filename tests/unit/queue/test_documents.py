"""Are documents merged without a loss, and compared without a false match?"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from buildqueue.queue.documents import fits, merged

# A busy machine is no fault of what is tested.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4)
)
KEYS = st.sampled_from(["a", "b", "c", "", "ä"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


def _paths(document: Any) -> dict[tuple[str, ...], Any]:
    """Return what is at the end of every path through objects."""
    if not isinstance(document, dict) or not document:
        return {(): document}
    return {
        (key, *path): leaf
        for key, value in document.items()
        for path, leaf in _paths(value).items()
    }


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@PATIENT
@given(OBJECTS, OBJECTS)
def test_all_of_the_patch_is_in_the_merged_document(
    document: dict[str, Any], patch: dict[str, Any]
) -> None:
    whole = _paths(merged(document, patch))

    for path, leaf in _paths(patch).items():
        if leaf != {}:
            assert _same(whole[path], leaf)


@PATIENT
@given(OBJECTS, OBJECTS)
def test_what_the_patch_does_not_name_is_kept(
    document: dict[str, Any], patch: dict[str, Any]
) -> None:
    whole, patched = _paths(merged(document, patch)), list(_paths(patch))

    for path, leaf in _paths(document).items():
        if not any(path[: len(p)] == p or p[: len(path)] == path for p in patched):
            assert _same(whole[path], leaf)


@PATIENT
@given(OBJECTS, OBJECTS)
def test_merging_again_changes_nothing_and_neither_does_nothing(
    document: dict[str, Any], patch: dict[str, Any]
) -> None:
    once = merged(document, patch)

    assert _same(merged(once, patch), once)
    assert _same(merged(document, {}), document)


@PATIENT
@given(OBJECTS, OBJECTS)
def test_merging_leaves_its_arguments_alone(
    document: dict[str, Any], patch: dict[str, Any]
) -> None:
    before = copy.deepcopy((document, patch))

    merged(document, patch)

    assert (document, patch) == before


@pytest.mark.parametrize("document", [None, [], ["a"], "text", 1])
def test_what_was_no_object_is_replaced(document: Any) -> None:
    assert merged(document, {"a": {"b": 1}}) == {"a": {"b": 1}}
    assert merged({"a": document}, {"a": {"b": 1}}) == {"a": {"b": 1}}


@PATIENT
@given(OBJECTS)
def test_a_document_fits_itself_and_everything_fits_nothing(
    document: dict[str, Any],
) -> None:
    assert fits(document, document)
    assert fits(document, {})


@PATIENT
@given(OBJECTS, OBJECTS)
def test_a_merged_document_fits_its_patch(
    document: dict[str, Any], patch: dict[str, Any]
) -> None:
    assert fits(merged(document, patch), patch)


@PATIENT
@given(VALUES, VALUES)
def test_two_values_fit_each_other_in_a_list_only_if_they_are_the_same_json(
    one: Any, other: Any
) -> None:
    found = fits([one], [other])

    assert found == fits([other], [one])
    if found and not _numbers_in(one):
        assert _same(one, other)


def _numbers_in(value: Any) -> bool:
    """Tell whether a number is in it: 1 and 1.0 are the same, and written otherwise."""
    if isinstance(value, dict):
        return any(map(_numbers_in, value.values()))
    if isinstance(value, list):
        return any(map(_numbers_in, value))
    return isinstance(value, int | float) and not isinstance(value, bool)


@PATIENT
@given(OBJECTS, KEYS, VALUES)
def test_one_other_value_does_not_fit(
    document: dict[str, Any], key: str, value: Any
) -> None:
    changed = {**document, key: [value, "more"]}
    expected = {key: [value]}

    assert not fits(changed, expected)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"a": 1}, {"a": True}),
        ({"a": True}, {"a": 1}),
        ({"a": 0}, {"a": False}),
        ({"a": 0}, {"a": None}),
        ({"a": ""}, {"a": None}),
        ({"a": "1"}, {"a": 1}),
        ({"a": [1]}, {"a": [True]}),
        ({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}),
        ({"a": [{"b": None}]}, {"a": [{}]}),
        ({"a": []}, {"a": {}}),
        ({"a": {}}, {"a": []}),
        ({"a": None}, {"a": {}}),
        ({}, {"a": {"b": None}}),
        ({}, {"a": False}),
        ({"a": {"b": 1}}, {"a": "b"}),
        (None, {}),
        ([], {}),
    ],
)
def test_what_only_looks_alike_does_not_fit(document: Any, expected: Any) -> None:
    assert not fits(document, expected)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"a": 1}, {"a": 1.0}),
        ({}, {"a": None}),
        ({"a": {"x": 1}}, {"a": {"y": None}}),
        ({"a": {"x": 1}}, {"a": {}}),
        ({"a": [1, [2]]}, {"a": (1, (2,))}),
    ],
)
def test_what_is_the_same_fits(document: Any, expected: Any) -> None:
    assert fits(document, expected)
