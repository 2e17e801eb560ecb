"""When does a job's result count, and what is kept of an agent card?"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from buildqueue.builds import results
from buildqueue.exceptions import ResultMissing
from buildqueue.models import BuildJob

GOOD: dict[str, Any] = {
    "build_id": str(uuid.uuid4()),
    "version": "1.0.0",
    "image_reference": "local:x/1.0.0@sha256:1",
    "digest": "sha256:1",
    "ports": [8000],
    "deployment_id": str(uuid.uuid4()),
    "service_url": "http://127.0.0.1:1",
    "runtime": "local",
    "host": "h",
    "card": {},
}


def test_a_whole_result_counts() -> None:
    assert results.deployed(BuildJob(result=GOOD)).version == "1.0.0"


@pytest.mark.parametrize(
    "result",
    [None, {}, [], "done", {**GOOD, "image_reference": ""}, {**GOOD, "more": 1}],
)
def test_less_than_that_is_missing(result: Any) -> None:
    with pytest.raises(ResultMissing, match="names no built artifact"):
        results.deployed(BuildJob(result=result))


def test_only_known_fields_of_a_card_are_kept() -> None:
    assert results.card_of({"name": "a", "secret": "b"}) == {"name": "a"}


def test_a_card_that_is_too_large_is_not_kept() -> None:
    assert results.card_of({"name": "x" * results.MAX_CARD_BYTES}) == {}


def test_no_card_is_an_empty_one() -> None:
    assert results.card_of(None) == {}


def test_a_card_that_nests_without_end_is_not_kept() -> None:
    deep: list[Any] = []
    for _ in range(400):
        deep = [deep]

    assert results.card_of({"name": "a", "skills": deep}) == {}
