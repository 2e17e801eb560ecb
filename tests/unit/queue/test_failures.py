"""What does an exception mean, and how long is the pause before the next try?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildqueue.exceptions import (
    Cancelled,
    InvalidPayload,
    Refused,
    Rejected,
    Unavailable,
    UnknownKind,
)
from buildqueue.queue.failures import MAX_MESSAGE, MAX_TRACEBACK, backoff, outcome_of
from buildqueue.queue.outcomes import Fail, Outcome, Retry


@pytest.mark.parametrize(
    ("error", "expected", "code"),
    [
        (UnknownKind("x", ["a"]), Fail, "unknown_kind"),
        (InvalidPayload("x", {"a": "b"}), Fail, "invalid_payload"),
        (Rejected("bad_zip", "no zip"), Fail, "bad_zip"),
        (Refused("too_large", "too large"), Fail, "too_large"),
        (Unavailable("registry_down", "later"), Retry, "registry_down"),
        (Cancelled("cancelled", "stopped"), Retry, "cancelled"),
        (ValueError("nobody expected it"), Retry, "exception"),
        (RecursionError(), Retry, "exception"),
        (MemoryError(), Retry, "exception"),
    ],
)
def test_an_exception_is_an_outcome_with_a_stable_code(
    error: Exception, expected: type[Outcome], code: str
) -> None:
    outcome = outcome_of(error)

    assert isinstance(outcome, Fail | Retry)
    assert isinstance(outcome, expected)
    assert outcome.code == code
    assert outcome.reason


def test_what_nobody_expected_keeps_its_traceback() -> None:
    try:
        raise ValueError("here")
    except ValueError as error:
        outcome = outcome_of(error)

    assert isinstance(outcome, Retry)
    assert "ValueError: here" in (outcome.traceback or "")


def test_a_long_message_and_a_long_traceback_are_cut() -> None:
    outcome = outcome_of(ValueError("x" * 100_000))

    assert isinstance(outcome, Retry)
    assert len(outcome.reason) <= MAX_MESSAGE
    assert len(outcome.traceback or "") <= MAX_TRACEBACK + 1


def _pause(failures: int, rand: float = 0.5) -> float:
    return backoff(failures, base=2, longest=600, jitter=0.2, rand=lambda: rand)


def test_the_pause_doubles_from_the_base_to_the_longest() -> None:
    assert [_pause(n) for n in range(1, 6)] == [2, 4, 8, 16, 32]
    assert _pause(30) == _pause(10_000) == 600


@given(failures=st.integers(1, 10_000), rand=st.floats(0, 1))
def test_the_pause_varies_by_its_jitter_and_no_more(failures: int, rand: float) -> None:
    middle = _pause(failures)

    assert 0.799 * middle <= _pause(failures, rand) <= 1.201 * middle
