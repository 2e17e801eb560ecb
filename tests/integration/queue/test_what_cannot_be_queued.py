"""Is what no worker could ever find in the table refused before it is inserted?"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from django.db import transaction
from pydantic import BaseModel

from buildqueue.exceptions import InvalidOption, InvalidPayload, Refused
from buildqueue.models import BuildJob
from buildqueue.models.jobs import MOST
from buildqueue.queue.enqueueing import enqueue
from tests.host.jobs import Probe

from .conftest import AddKind

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("priority", 101),
        ("priority", -101),
        ("priority", 1.5),
        ("max_attempts", 0),
        ("max_attempts", MOST + 1),
        ("due_at", datetime(2030, 1, 1)),  # without a zone
        ("due_at", datetime(1969, 12, 31, tzinfo=UTC)),
        ("due_at", datetime(9500, 1, 1, tzinfo=UTC)),
        ("on_duplicate", "replaec"),
        ("queue", ""),
        ("serial_key", ""),
        ("dedupe_key", ""),
        ("requires", ""),
        ("queue", "q" * 101),
        ("owner_id", "o" * 101),
        ("serial_key", "s" * 201),
        ("dedupe_key", "d" * 201),
        ("requires", "r" * 201),
        ("serial_key", "a\x00b"),
        ("dedupe_key", "\udc80"),
        ("priority", True),
        ("priority", 1.0),
        ("priority", "5"),
        ("priority", float("nan")),
        pytest.param("priority", 10**5000, id="huge"),
        ("max_attempts", True),
        ("owner_id", None),
        ("owner_id", 5),
        ("queue", 5),
        ("serial_key", ["a"]),
        ("dedupe_key", {"a": 1}),
        ("due_at", "tomorrow"),
        ("due_at", 0),
        ("due_at", date(2030, 1, 1)),
        ("limits", {"time_seconds": 5}),
        ("agent_id", "x"),
        ("connector_id", 5),
        ("parent", "x"),
        ("on_duplicate", [1]),
    ],
)
def test_an_option_out_of_its_range_is_refused_and_the_transaction_goes_on(
    option: str, value: Any
) -> None:
    options = {option: value}

    with transaction.atomic():
        with pytest.raises(InvalidOption, match=f"^{option} must ") as refused:
            enqueue(Probe(), **options)
        kept = enqueue(Probe())

    assert list(refused.value.fields) == [option]
    assert isinstance(refused.value, ValueError)
    assert isinstance(refused.value, Refused)
    assert list(BuildJob.objects.all()) == [kept]


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(InvalidOption) as refused:
        enqueue(Probe(), priority=500, queue="")

    assert set(refused.value.fields) == {"priority", "queue"}


def test_the_ends_of_each_range_are_taken() -> None:
    job = enqueue(
        Probe(), priority=-100, owner_id="o" * 100, queue="ü" * 100, max_attempts=1
    )
    other = enqueue(Probe(), priority=100, serial_key="s" * 200, requires="r" * 200)
    last = enqueue(Probe(), max_attempts=MOST, due_at=datetime(9000, 1, 1, tzinfo=UTC))

    assert (job.priority, other.priority) == (-100, 100)
    assert (last.max_attempts, last.due_at.year) == (MOST, 9000)


def _nested(depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(depth):
        made = {"a": made}
    return made


class Loose(BaseModel, extra="allow"):
    """A payload that takes anything."""

    kind: str


@pytest.mark.parametrize(
    "value",
    [
        "a\x00b",
        "\ud800",
        ["\x00"],
        {"\x00": 1},
        {5: 1},
        float("nan"),
        float("inf"),
        object(),
        10**5000,
        _nested(101),
        _nested(3000),
        "x" * 5_000_000,
    ],
    ids=lambda value: f"{type(value).__name__}",
)
def test_a_payload_that_cannot_be_stored_is_refused_and_the_transaction_goes_on(
    add_kind: AddKind, value: Any
) -> None:
    kind = add_kind(payload=Loose)
    payloads: list[Any] = [{"kind": kind, "a": value}]
    if value != {5: 1} and not isinstance(value, float):
        # Of the others a model makes JSON itself: a text of the key, null of the number.
        payloads.append(Loose(kind=kind, a=value))
    with transaction.atomic():
        for payload in payloads:
            with pytest.raises(InvalidPayload) as refused:
                enqueue(payload)
            assert (refused.value.kind, list(refused.value.errors)) == (
                kind,
                ["payload"],
            )
        kept = enqueue(Probe())

    assert list(BuildJob.objects.all()) == [kept]


@pytest.mark.parametrize("payload", [None, [1], "x", 5, object()])
def test_what_is_no_object_is_no_payload(payload: Any) -> None:
    with pytest.raises(InvalidPayload, match="must be an object"):
        enqueue(payload)
