"""What does an exception mean, and when is the job tried again?

Pure: values in, values out. Known faults of the input fail at once; what may pass, and
what nobody expected, is tried again with growing delays until the allowance is spent.
"""

from __future__ import annotations

import errno
import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from ..exceptions import (
    ActionRefused,
    BackendError,
    InvalidPayload,
    NotDone,
    OutcomeUnknown,
    PermanentError,
    Refused,
    Rejected,
    SoftTimeLimit,
    TransientError,
    UnknownKind,
    UserError,
)
from ..states import ErrorClass
from .outcomes import Fail, Outcome, Retry

MAX_TRACEBACK = 16 * 1024
MAX_MESSAGE = 2_000

# Whose fault an exception is; the first that fits. What is not here nobody expected.
FATAL: tuple[tuple[tuple[type[Exception], ...], ErrorClass], ...] = (
    (
        (UnknownKind, PermanentError, ActionRefused, OutcomeUnknown),
        ErrorClass.PERMANENT,
    ),
    ((InvalidPayload, UserError, Rejected, Refused), ErrorClass.USER),
)
TRANSIENT = (TransientError, BackendError, NotDone, SoftTimeLimit)


def outcome_of(error: BaseException) -> Outcome:
    """Return what an exception raised by a handler means for its job. Never raises."""
    reason = text_of(error)
    code = _code_of(error)
    for types, blame in FATAL:
        if isinstance(error, types):
            return Fail(reason=reason, code=code, blame=blame)
    if isinstance(error, TRANSIENT):
        return _transient(error, code, reason)
    match error:
        case MemoryError():
            return _unknown(error, "out_of_memory", "it ran out of memory")
        case OSError(errno=errno.EFBIG):
            return _unknown(error, "file_limit", "it wrote a larger file than it may")
        case _:
            said = f"{type(error).__name__}: {reason}"[:MAX_MESSAGE]
            return _unknown(error, "exception", said)


def text_of(error: BaseException) -> str:
    """Return what an exception says, cut; its name when it says nothing, or cannot."""
    try:
        said = str(error)[:MAX_MESSAGE]
    except Exception:  # its own `__str__` is the handler's code
        said = ""
    return said or type(error).__name__


def _code_of(error: BaseException) -> str:
    try:
        return str(getattr(error, "code", "")) or "exception"
    except Exception:  # a property of the handler's, or what it gives
        return "exception"


def _transient(error: BaseException, code: str, reason: str) -> Outcome:
    blame = ErrorClass.TRANSIENT
    try:
        delay = getattr(error, "delay_seconds", None)
        return Retry(reason=reason, code=code, delay_seconds=delay, blame=blame)
    except Exception as bad:  # the handler's, like the code
        why = f"its outcome cannot be stored: {text_of(bad)} ({reason})"[:MAX_MESSAGE]
        return Fail(reason=why, code="outcome_refused")


def _unknown(error: BaseException, code: str, reason: str) -> Retry:
    return Retry(reason=reason, code=code, traceback=tail_of_traceback(error))


def tail_of_traceback(error: BaseException) -> str:
    """Return the traceback, its end kept when it is long."""
    try:
        text = "".join(traceback.format_exception(error))
    except Exception:  # it looks at what a handler may have put into it
        text = f"{type(error).__name__}: its traceback cannot be told\n"
    return text if len(text) <= MAX_TRACEBACK else "…" + text[-MAX_TRACEBACK:]


def exhausted(why: str) -> dict[str, str]:
    """Return the error of a job whose allowance is spent, for its columns."""
    return {
        "error_code": "max_attempts_exhausted",
        "error_msg": f"max attempts exceeded: {why}",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How long a job waits before it is tried again: doubled, capped, jittered."""

    base_seconds: float
    max_seconds: float
    jitter: float = 0.2  # as a part of the delay, to either side

    def delay(
        self, failures: int, *, rand: Callable[[], float] = random.random
    ) -> float:
        """Return the seconds before the next try.

        `failures` counts the one that has just happened, so the first delay is the base.
        """
        longest = min(
            self.base_seconds * 2.0 ** min(failures - 1, 60), self.max_seconds
        )
        return longest * (1 + self.jitter * (2 * rand() - 1))
