"""Is what nobody could keep refused where it is set, and skipped where it is read?"""

from __future__ import annotations

import math
from typing import Any

import pytest

from buildqueue.queue.limits import LEAST_MEMORY, LONGEST, MOST, UNLIMITED, Limits

NAMES = tuple(UNLIMITED.__slots__)
TIMES = [name for name in NAMES if name.endswith("_seconds")]
COUNTS = [name for name in NAMES if name not in TIMES]
NO_NUMBERS: list[Any] = [True, "60", [], {}]
NO_LIMITS: list[Any] = [0, -1, math.nan, math.inf, -math.inf, 10**400, 10**5000]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_what_is_no_number_is_refused(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=name):
        Limits(**{name: value})
    assert Limits.of({name: value}) == UNLIMITED


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", NO_LIMITS, ids=range(len(NO_LIMITS)))
def test_what_no_clock_or_kernel_can_keep_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        Limits(**{name: value})
    assert Limits.of({name: value}) == UNLIMITED


@pytest.mark.parametrize(
    ("names", "least", "most"),
    [(TIMES, 1e-3, LONGEST), (COUNTS, LEAST_MEMORY, MOST)],
    ids=["times", "counts"],
)
def test_the_bounds_themselves_are_limits(
    names: list[str], least: float, most: float
) -> None:
    for name in names:
        for value in (least, most):
            assert getattr(Limits(**{name: value}), name) == value
            assert getattr(Limits.of({name: value}), name) == value
        with pytest.raises(ValueError, match=name):
            Limits(**{name: most * 2})


def test_less_than_one_is_no_count() -> None:
    for name in ("processes", "file_bytes"):
        with pytest.raises(ValueError, match="1 at least"):
            Limits(**{name: 0.5})


def test_a_soft_limit_that_never_comes_is_refused_and_left_out_of_two_sources() -> None:
    with pytest.raises(ValueError, match="soft_time_seconds"):
        Limits(soft_time_seconds=5, time_seconds=5)
    of_kind = Limits(soft_time_seconds=5, time_seconds=10)
    assert Limits(time_seconds=3).over(of_kind) == Limits(time_seconds=3)
    assert Limits.of({"soft_time_seconds": 9, "time_seconds": 9, "other": 1}) == Limits(
        time_seconds=9
    )
