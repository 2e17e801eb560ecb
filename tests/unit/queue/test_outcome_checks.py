"""Does an outcome refuse where it is made what could not be stored?"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from buildqueue.queue.outcomes import (
    LONGEST_DELAY,
    Cancel,
    Fail,
    Retry,
    Snooze,
    WaitForApproval,
)


def _retry(seconds: Any) -> Retry:
    return Retry(reason="later", delay_seconds=seconds)


def _snooze(seconds: Any) -> Snooze:
    return Snooze(delay_seconds=seconds)


@pytest.mark.parametrize("make", [_retry, _snooze])
@pytest.mark.parametrize("seconds", [math.inf, math.nan, -1, 1e15, LONGEST_DELAY + 1])
def test_a_delay_that_never_ends_is_refused(
    make: Callable[[Any], object], seconds: float
) -> None:
    with pytest.raises(ValueError, match="delay_seconds"):
        make(seconds)


@pytest.mark.parametrize("make", [_retry, _snooze])
@pytest.mark.parametrize("seconds", [True, "5", []])
def test_a_delay_is_a_number(make: Callable[[Any], object], seconds: Any) -> None:
    with pytest.raises(TypeError, match="delay_seconds"):
        make(seconds)


def test_the_longest_delay_and_none_at_all_are_fine() -> None:
    assert _retry(LONGEST_DELAY).delay_seconds == LONGEST_DELAY
    assert _retry(None).delay_seconds is None
    assert _snooze(0).delay_seconds == 0


@pytest.mark.parametrize("text", [None, 5, {"a": 1}, b"text"])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda text: Retry(reason=text), "reason"),
        (lambda text: Retry(reason="x", code=text), "code"),
        (lambda text: Fail(reason=text), "reason"),
        (lambda text: Fail(reason="x", code=text), "code"),
        (lambda text: Snooze(delay_seconds=1, reason=text), "reason"),
        (lambda text: Cancel(reason=text), "reason"),
        (lambda text: WaitForApproval(reason=text), "reason"),
    ],
)
def test_a_reason_and_a_code_are_text(
    make: Callable[[Any], object], name: str, text: Any
) -> None:
    with pytest.raises(TypeError, match=f"{name} must be text"):
        make(text)
