"""What does an exception mean, and how long is the pause before the next try?"""

from __future__ import annotations

import asyncio
import errno
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildqueue.exceptions import (
    ActionRefused,
    Cancelled,
    InvalidPayload,
    NotDone,
    OutcomeUnknown,
    PermanentError,
    Refused,
    Rejected,
    SoftTimeLimit,
    TransientError,
    Unavailable,
    UnknownKind,
    UserError,
)
from buildqueue.queue.failures import MAX_MESSAGE, MAX_TRACEBACK, Backoff, outcome_of
from buildqueue.queue.outcomes import Fail, Outcome, Retry
from buildqueue.states import ErrorClass


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
        (MemoryError(), Retry, "out_of_memory"),
        (OSError(errno.EFBIG, "File too large"), Retry, "file_limit"),
        (OSError(errno.ENOSPC, "No space left"), Retry, "exception"),
        (SoftTimeLimit(5), Retry, "soft_timed_out"),
        (TransientError("later"), Retry, "transient"),
        (TransientError("later", code="busy"), Retry, "busy"),
        (PermanentError("never"), Fail, "permanent"),
        (UserError("no such order"), Fail, "user_error"),
        (NotDone("the mail was not sent"), Retry, "action_failed"),
        (ActionRefused("no"), Fail, "action_denied"),
        (OutcomeUnknown("who knows"), Fail, "outcome_unknown"),
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


@pytest.mark.parametrize(
    ("error", "blame"),
    [
        (TransientError("x"), ErrorClass.TRANSIENT),
        (Unavailable("x", "x"), ErrorClass.TRANSIENT),
        (NotDone("x"), ErrorClass.TRANSIENT),
        (SoftTimeLimit(1), ErrorClass.TRANSIENT),
        (PermanentError("x"), ErrorClass.PERMANENT),
        (UnknownKind("x", []), ErrorClass.PERMANENT),
        (ActionRefused("x"), ErrorClass.PERMANENT),
        (OutcomeUnknown("x"), ErrorClass.PERMANENT),
        (UserError("x"), ErrorClass.USER),
        (InvalidPayload("x", {}), ErrorClass.USER),
        (Rejected("x", "x"), ErrorClass.USER),
        (Refused("x", "x"), ErrorClass.USER),
        (ValueError("x"), ErrorClass.UNKNOWN),
        (MemoryError(), ErrorClass.UNKNOWN),
    ],
)
def test_an_exception_says_whose_fault_it_is(
    error: Exception, blame: ErrorClass
) -> None:
    outcome = outcome_of(error)

    assert isinstance(outcome, Fail | Retry)
    assert outcome.blame == blame


def test_who_knows_when_it_may_work_is_believed() -> None:
    outcome = outcome_of(TransientError("busy", delay_seconds=7))

    assert isinstance(outcome, Retry)
    assert outcome.delay_seconds == 7


@pytest.mark.parametrize("delay", [math.inf, math.nan, 1e15, -1, "soon"])
def test_a_delay_that_cannot_be_kept_is_refused(delay: Any) -> None:
    outcome = outcome_of(TransientError("busy", delay_seconds=delay))

    assert isinstance(outcome, Fail)
    assert outcome.code == "outcome_refused"
    assert "busy" in outcome.reason


class _Mute(Exception):
    @property
    def code(self) -> str:
        raise RuntimeError("no code")

    def __str__(self) -> str:
        raise RuntimeError("no words")


class _MuteUser(_Mute, UserError):
    pass


def test_what_cannot_say_what_it_is_is_told_by_its_name() -> None:
    outcome = outcome_of(_Mute())

    assert isinstance(outcome, Retry)
    assert (outcome.code, outcome.reason) == ("exception", "_Mute: _Mute")
    assert "_Mute" in (outcome.traceback or "")
    blamed = outcome_of(_MuteUser.__new__(_MuteUser))
    assert isinstance(blamed, Fail)
    assert (blamed.code, blamed.reason) == ("exception", "_MuteUser")


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), KeyboardInterrupt(), GeneratorExit()]
)
def test_what_is_meant_for_a_task_or_a_program_is_tried_again(
    error: BaseException,
) -> None:
    outcome = outcome_of(error)

    assert isinstance(outcome, Retry)
    assert outcome.code == "exception"
    assert type(error).__name__ in (outcome.traceback or "")


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
    backoff = Backoff(base_seconds=2, max_seconds=600, jitter=0.2)
    return backoff.delay(failures, rand=lambda: rand)


def test_the_pause_doubles_from_the_base_to_the_longest() -> None:
    assert [_pause(n) for n in range(1, 6)] == [2, 4, 8, 16, 32]
    assert _pause(30) == _pause(10_000) == 600


@given(failures=st.integers(1, 10_000), rand=st.floats(0, 1))
def test_the_pause_varies_by_its_jitter_and_no_more(failures: int, rand: float) -> None:
    middle = _pause(failures)

    assert 0.799 * middle <= _pause(failures, rand) <= 1.201 * middle
