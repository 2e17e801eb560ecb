"""A durable build and job queue on PostgreSQL, the Django admin its control room.

What a host needs is here: `handler` and `Context` to write a kind, with its `Limits` and
`Backoff`; the outcomes a handler may return; `enqueue` to put a job into the queue, and
`compare_and_swap` to share its state. Loaded when first asked for, because models must
not be imported before Django is set up.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .queue.context import Context
    from .queue.enqueueing import enqueue
    from .queue.failures import Backoff
    from .queue.handlers import handler
    from .queue.limits import Limits
    from .queue.outcomes import (
        Cancel,
        Done,
        Fail,
        Retry,
        Snooze,
        WaitForApproval,
        WaitForChildren,
        WaitForInput,
    )
    from .queue.questions import Field
    from .queue.records import compare_and_swap

__version__ = "0.1.0"

__all__ = [
    "Backoff",
    "Cancel",
    "Context",
    "Done",
    "Fail",
    "Field",
    "Limits",
    "Retry",
    "Snooze",
    "WaitForApproval",
    "WaitForChildren",
    "WaitForInput",
    "compare_and_swap",
    "enqueue",
    "handler",
]

_OUTCOMES = (
    "Cancel",
    "Done",
    "Fail",
    "Retry",
    "Snooze",
    "WaitForApproval",
    "WaitForChildren",
    "WaitForInput",
)
_HOMES = {
    "Backoff": "failures",
    "Context": "context",
    "Field": "questions",
    "Limits": "limits",
    "compare_and_swap": "records",
    "enqueue": "enqueueing",
    "handler": "handlers",
    **dict.fromkeys(_OUTCOMES, "outcomes"),
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"buildqueue.queue.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'buildqueue' has no attribute {name!r}")
