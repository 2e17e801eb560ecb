"""How does a worker learn at once that there is work, or that a run was revoked?

One NOTIFY per transaction and message, sent after the commit and autocommitted: inside
the caller's transaction it would hold a cluster-wide lock through the commit. A lost
message costs at most one poll interval; nothing depends on it. If the process dies
between commit and NOTIFY, the poll finds the job.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from uuid import UUID

from django.db import connections, transaction

from . import database

CHANNEL = "buildqueue"
QUEUE, REVOKED, LATER = "q", "r", "l"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Notify:
    """A message to send after commit; equal ones of a transaction are sent once."""

    alias: str
    message: str

    def send(self) -> None:
        """Send it; if that fails Django logs it, and the poll finds what there is."""
        with connections[self.alias].cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, self.message])


def _after_commit(message: str) -> None:
    notify = _Notify(database.alias(), message)
    pending = connections[notify.alias].run_on_commit
    if not any(getattr(entry[1], "__self__", None) == notify for entry in pending):
        # A method, as Django logs by its name what a robust callback raises.
        transaction.on_commit(notify.send, using=notify.alias, robust=True)


def wake(queue: str) -> None:
    """Tell idle workers, after the commit, that the queue may have a job for them."""
    _after_commit(f"{QUEUE}:{queue}")


def tell_later() -> None:
    """Tell workers, after the commit, that a job was scheduled: they sleep until due."""
    _after_commit(LATER)


def tell_revoked(worker: UUID) -> None:
    """Tell a worker, after the commit, that it lost a lease: it ends the process."""
    _after_commit(f"{REVOKED}:{worker}")
