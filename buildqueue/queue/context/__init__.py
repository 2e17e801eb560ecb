"""What does a handler get? Its job, its lease, its memory, and ways to tell where it is.

    steps       parts that are done once, with what they leave behind
    memory      state, evidence, plan, artifacts, answers, progress
    effects     what happens outside and must not happen twice
    offspring   other jobs that it needs

Every write of a context is fenced: once the lease is gone it raises LostLeaseError and
has written nothing. If the process dies between two calls, the next attempt finds what
the earlier ones have committed, and nothing else.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from ...exceptions import LostLeaseError
from ...models import BuildJob
from ...states import EventKind
from .. import database, leases, storing
from .effects import Effects
from .memory import Memory
from .offspring import Offspring
from .parts import Alarm
from .steps import Steps

__all__ = ["Context"]

LOOK_SECONDS = 1.0  # between two looks at the lease

EVENT = """
INSERT INTO buildqueue_jobevent (job_id, run, attempt, kind, title, detail, actor)
SELECT id, lease_id, attempt, %s, %s, %s::jsonb, 'worker'
FROM buildqueue_buildjob
WHERE id = %s AND lease_id = %s
"""


@dataclass(slots=True, kw_only=True)
class Context(Steps, Memory, Effects, Offspring):
    """One run, as its handler sees it."""

    job: BuildJob
    lease_id: UUID
    # A connection of the engine's own, so that what is told is seen at once, also from
    # inside a transaction of the handler. None: the usual one.
    session: BaseDatabaseWrapper | None = None
    # How a step is cut short in the middle. None: it is refused at its end.
    alarm: Alarm | None = None
    # Threads of the handler's have connections, and transactions, of their own.
    # How many transactions were open when it began: none, but in a test.
    blocks: int = field(default_factory=database.open_blocks, init=False)
    _thread: int = field(default_factory=threading.get_ident, init=False)
    _held: bool = field(default=True, init=False)
    _looked: float = field(default=0.0, init=False)

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self.job.attempt

    def log(self, line: str) -> None:
        """Print a line of the job's log, at once."""
        sys.stdout.write(line.rstrip("\n") + "\n")
        sys.stdout.flush()

    def note(self, title: str, **detail: Any) -> None:
        """Write a fact of the handler's own into the timeline.

        What is no JSON in it is told as text; NotStorable when it is too deep or large.
        """
        self.tell(EventKind.NOTE, title, detail)

    # -- the lease ----------------------------------------------------------------

    def check_lease(self) -> None:
        """Raise LostLeaseError when the job no longer belongs to this run."""
        with self.outside():
            self._held = bool(leases.held([self.lease_id]))
        self._looked = time.monotonic()
        if not self._held:
            raise LostLeaseError(self.job.pk, self.lease_id)

    def heartbeat(self) -> None:
        """Do the same, and look once a second at most: cheap enough for any loop."""
        if not self._held or time.monotonic() - self._looked >= LOOK_SECONDS:
            self.check_lease()

    @property
    def cancelled(self) -> bool:
        """Whether the job was taken from this run: stop, nothing of it counts."""
        try:
            self.heartbeat()
        except LostLeaseError:
            return True
        return False

    # -- for the parts --------------------------------------------------------------

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Have the engine's writes go past a transaction that the handler has open.

        Where there is no way past, because the session was cut meanwhile, they join it.
        """
        own = self.session if threading.get_ident() == self._thread else None
        if own is None or database.severed(own):
            yield
            return
        with database.through(own):
            yield

    def tell(
        self, kind: EventKind, title: str, detail: dict[str, Any] | None = None
    ) -> None:
        """Write an event of the timeline, seen at once."""
        with self.outside():
            self.record(kind, title, detail)

    def record(
        self, kind: EventKind, title: str, detail: dict[str, Any] | None = None
    ) -> None:
        """Write an event of the timeline into whatever transaction is open."""
        told = json.dumps(storing.document(detail or {}, otherwise=str))
        values = [kind.value, storing.text(title, "title")[:200], told]
        with database.connection().cursor() as cursor:
            cursor.execute(EVENT, [*values, self.job.pk, self.lease_id])
            if cursor.rowcount != 1:
                raise LostLeaseError(self.job.pk, self.lease_id)
