"""What does an exception mean, and when is the job tried again?

Pure: values in, values out. Known faults of the input fail at once; what may pass, and
what nobody expected, is tried again with growing delays until the allowance is spent.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable

from ..exceptions import (
    BackendError,
    Cancelled,
    InvalidPayload,
    Refused,
    Rejected,
    UnknownKind,
)
from .outcomes import Fail, Outcome, Retry

MAX_TRACEBACK = 16 * 1024
MAX_MESSAGE = 2_000


def outcome_of(error: BaseException) -> Outcome:
    """Return what an exception raised by a handler means for its job."""
    reason = str(error)[:MAX_MESSAGE] or type(error).__name__
    match error:
        case UnknownKind():
            return Fail(reason=reason, code="unknown_kind")
        case InvalidPayload():
            return Fail(reason=reason, code="invalid_payload")
        case Rejected() | Refused():
            return Fail(reason=reason, code=error.code)
        case Cancelled():
            return Retry(reason=reason, code=error.code)
        case BackendError():
            return Retry(reason=reason, code=error.code)
        case _:
            return Retry(
                reason=f"{type(error).__name__}: {reason}"[:MAX_MESSAGE],
                code="exception",
                traceback=tail_of_traceback(error),
            )


def tail_of_traceback(error: BaseException) -> str:
    """Return the traceback, its end kept when it is long."""
    text = "".join(traceback.format_exception(error))
    return text if len(text) <= MAX_TRACEBACK else "…" + text[-MAX_TRACEBACK:]


def backoff(
    failures: int,
    *,
    base: float,
    longest: float,
    jitter: float,
    rand: Callable[[], float] = random.random,
) -> float:
    """Return the seconds before the next try: doubled each time, capped, jittered.

    `failures` counts the one that has just happened, so the first delay is the base.
    """
    delay = min(base * 2.0 ** min(failures - 1, 60), longest)
    return delay * (1 + jitter * (2 * rand() - 1))
