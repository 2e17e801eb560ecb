"""Is what no worker could ever find in the table refused before it is inserted?"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import transaction

from buildqueue.exceptions import InvalidOption, Refused
from buildqueue.models import BuildJob
from buildqueue.models.jobs import MOST
from buildqueue.queue.enqueueing import enqueue
from tests.host.jobs import Probe

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
