"""How does a job's status change? In this package, and nowhere else.

    changing   one transition of one job: its row, run, event, final hook, in one go
    endings    the final hook, and "done" taken back when its result is missing
    waits      what a waiting job waits for, and whether it has come
    families   what a job's end means for its parent and its children
    actionflow the status of an outside effect
    taking     the claim, and making scheduled jobs pending: many rows, SKIP LOCKED
    timeline   the event of a change

Locks are taken in the order child, parent, and for one job: job, run, action, build row.
"""

from __future__ import annotations

from .changing import apply, retry_final_hook, settle
from .taking import Holder, promote_due, take
from .timeline import Change, record

__all__ = [
    "Change",
    "Holder",
    "apply",
    "promote_due",
    "record",
    "retry_final_hook",
    "settle",
    "take",
]
