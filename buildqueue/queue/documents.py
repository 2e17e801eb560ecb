"""How are JSON documents merged and compared? Pure: values in, values out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merged(document: Any, patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with the patch in it; objects are merged key by key.

    What the patch does not name is kept, however deep. Lists and scalars replace, and
    null is a value like any other. What was no object is replaced.
    """
    whole = dict(document) if isinstance(document, Mapping) else {}
    for name, value in patch.items():
        inner = whole.get(name)
        both = isinstance(value, Mapping) and isinstance(inner, Mapping)
        whole[name] = merged(inner, value) if both else value
    return whole


def fits(document: Any, expected: Any) -> bool:
    """Tell whether a document is as expected.

    Objects are compared by the keys that are named. Lists and scalars must be equal, in
    type too: an empty list fits only an empty list, 1 is not true. A key that is not
    there fits null.
    """
    if isinstance(expected, Mapping):
        if not isinstance(document, Mapping):
            return False
        return all(fits(document.get(key), value) for key, value in expected.items())
    if isinstance(expected, list | tuple):
        return (
            isinstance(document, list)
            and len(document) == len(expected)
            and all(
                _equal(one, other)
                for one, other in zip(document, expected, strict=True)
            )
        )
    return _equal(document, expected)


def _equal(one: Any, other: Any) -> bool:
    """Tell whether two values are the same as JSON: inside a list nothing is left out."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(
            _equal(one[key], other[key]) for key in one
        )
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)
