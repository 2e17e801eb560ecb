"""A durable build and job queue on PostgreSQL, the Django admin its control room.

What a host needs is here: `handler` and `Context` to write a kind, `enqueue` to put a job
into the queue, the outcomes a handler may return. Loaded when first asked for, because
models must not be imported before Django is set up.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .queue.context import Context
    from .queue.enqueueing import enqueue
    from .queue.handlers import handler
    from .queue.outcomes import Done, Fail, Retry, Snooze

__version__ = "0.1.0"

__all__ = ["Context", "Done", "Fail", "Retry", "Snooze", "enqueue", "handler"]

_HOMES = {
    "Context": "context",
    "enqueue": "enqueueing",
    "handler": "handlers",
    "Done": "outcomes",
    "Fail": "outcomes",
    "Retry": "outcomes",
    "Snooze": "outcomes",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"buildqueue.queue.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'buildqueue' has no attribute {name!r}")
