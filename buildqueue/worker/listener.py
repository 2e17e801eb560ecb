"""How does a worker hear of work? By LISTEN where the connection is direct, and a look.

One thread with one connection: it listens, holds the worker's session lock, and looks
from time to time. A look is one statement: it says that the worker lives, and returns
whether there is work, when the next scheduled job is due, and which other workers'
locks are gone. Without a direct connection, as behind a pooler in transaction mode, only
the look is left, more often. The connection is made anew whenever it is lost.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import psycopg
from django.db import DatabaseError, InterfaceError
from django.db.backends.base.base import BaseDatabaseWrapper

from .. import conf
from ..queue import wakeups
from . import locks
from .inbox import Inbox
from .options import WorkerOptions
from .outages import Outages
from .registration import Beat

logger = logging.getLogger(__name__)

LOOK = """
WITH beat AS (
    UPDATE buildqueue_worker
    SET heartbeat_at = clock_timestamp(), busy = %(busy)s, status = %(status)s,
        direct = %(direct)s,
        server_started_at = CASE WHEN %(direct)s THEN pg_postmaster_start_time() END
    WHERE id = %(worker)s
)
SELECT
    -- By probes of the work queue's index: a plain EXISTS may walk the whole table.
    CASE WHEN %(all)s THEN
        (SELECT seq FROM buildqueue_buildjob
         WHERE status = 'pending' AND NOT held AND due_at <= statement_timestamp()
         ORDER BY queue, priority DESC, due_at, seq LIMIT 1) IS NOT NULL
    ELSE EXISTS (
        SELECT 1 FROM unnest(%(queues)s::text[]) AS served CROSS JOIN LATERAL (
            SELECT seq FROM buildqueue_buildjob
            WHERE status = 'pending' AND NOT held AND due_at <= statement_timestamp()
              AND queue = served
            ORDER BY priority DESC, due_at, seq LIMIT 1
        ) AS head
    ) END,
    (SELECT extract(epoch FROM min(due_at) - clock_timestamp())
     FROM buildqueue_buildjob WHERE status = 'scheduled'),
    EXISTS (SELECT 1 FROM buildqueue_worker
            WHERE status IN ('running', 'draining') AND id <> %(worker)s),
    -- Workers that call themselves alive and whose session is gone.
    CASE WHEN %(watch)s THEN ARRAY(
        SELECT other.id
        FROM buildqueue_worker AS other
        WHERE other.status IN ('running', 'draining')
          AND other.direct
          -- After a restart or failover nobody's lock is there: only the lease rule holds.
          AND other.server_started_at = pg_postmaster_start_time()
          AND NOT EXISTS (
            SELECT 1 FROM pg_locks AS lock
            WHERE lock.locktype = 'advisory'
              AND lock.database =
                  (SELECT oid FROM pg_database WHERE datname = current_database())
              AND lock.objsubid = 1 AND lock.granted
              AND (lock.classid::bigint << 32 | lock.objid::bigint)
                  = ('x' || left(replace(other.id::text, '-', ''), 16))::bit(64)::bigint
          )
          AND other.id <> %(worker)s
    ) END
"""

SHORTEST = 0.05  # between two looks, however many messages come
RETRY = 1.0  # while an old session still has our lock


@dataclass(slots=True)
class Watch:
    """Since when has each silent worker's lock been missing?"""

    missing: dict[UUID, float] = field(default_factory=dict)

    def look(self, gone: list[UUID], now: float, grace: float) -> list[UUID]:
        """Return the workers whose lock has been gone for the grace, once each."""
        self.missing = {w: self.missing.get(w, now) for w in gone}
        dead = [w for w, since in self.missing.items() if now - since >= grace]
        for worker in dead:
            self.missing[worker] = float("inf")
        return dead


class Listener(threading.Thread):
    """Posts `work` (maybe some), `revoked` (a lease was taken) and `dead` (a worker).

    And `direct` with each connection: whether its session is its own.
    """

    def __init__(
        self, inbox: Inbox, worker: UUID, options: WorkerOptions, outages: Outages
    ) -> None:
        super().__init__(name="listener", daemon=True)
        self.beat = Beat()
        self._inbox, self._worker, self._outages = inbox, worker, outages
        self._queues, self._poll = options.queues, options.poll_seconds
        self._watches = options.duties
        self._watch = Watch()
        self._direct: bool | None = None  # what the last probe found
        self._stopping = threading.Event()
        self._look_again = False  # a due time may be nearer than the one we know

    def tell(self, *, busy: int, draining: bool) -> None:
        """Have the worker's row say so, with the next look; a drain is told soon."""
        if draining and not self.beat.draining:
            self._look_again = True
        self.beat.busy, self.beat.draining = busy, draining

    def stop(self) -> None:
        """Ask the thread to end; it does within a second."""
        self._stopping.set()

    def run(self) -> None:
        """Listen and look until stopped; a lost connection is made anew."""
        while not self._stopping.is_set():
            try:
                with closing(locks.own_connection()) as session:
                    self._serve(session)
            except (DatabaseError, InterfaceError, psycopg.Error) as error:
                self._stopping.wait(self._outages.failed("listener", error))

    def _serve(self, session: BaseDatabaseWrapper) -> None:
        direct = is_direct(session)
        if direct:
            with session.cursor() as cursor:
                cursor.execute(f"LISTEN {wakeups.CHANNEL}")
        elif self._direct is not False:
            logger.warning("the database is behind a pooler: polling only")
        self._direct = direct
        self._inbox.post("direct", direct)
        locked = False
        while not self._stopping.is_set():
            locked = locked or (direct and locks.hold(session, self._worker))
            wait = self._look(session, direct)
            self._outages.well("listener")
            if direct and not locked:
                wait = min(wait, RETRY)
            self._wait(session, wait, direct)

    def _look(self, session: BaseDatabaseWrapper, direct: bool) -> float:
        """Beat, look, post what was seen; return the seconds until the next look."""
        values: dict[str, Any] = {
            "busy": self.beat.busy,
            "status": self.beat.status,
            "direct": direct,
            "worker": self._worker,
            "all": not self._queues,
            "queues": list(self._queues),
            "watch": self._watches,
        }
        self._look_again = False
        with session.cursor() as cursor:
            cursor.execute(LOOK, values)
            ready, due_in, others, gone = cursor.fetchone()
        if ready or (due_in is not None and due_in <= 0):
            self._inbox.post("work")
        self._tell_dead(gone or [])
        return self._pause(direct, due_in, watching=others and self._watches)

    def _tell_dead(self, gone: list[UUID]) -> None:
        grace = conf.get().watch_grace_seconds
        for worker in self._watch.look(gone, time.monotonic(), grace):
            self._inbox.post("dead", worker)

    def _pause(self, direct: bool, due_in: Any, *, watching: bool) -> float:
        now = conf.get()
        usual = now.poll_seconds if direct else now.poll_seconds_without_listen
        waits = [self._poll or usual]
        if watching:
            waits.append(now.watch_seconds)
        if due_in is not None:
            # What is due and still not promoted is behind others, or another's work.
            waits.append(float(due_in) if due_in > 0 else 1.0)
        return max(min(waits), SHORTEST)

    def _wait(self, session: BaseDatabaseWrapper, seconds: float, direct: bool) -> None:
        begun = time.monotonic()
        while not self._stopping.is_set():
            waited = time.monotonic() - begun
            left = (SHORTEST if self._look_again else seconds) - waited
            if left <= 0:
                return
            step = min(left, 1.0)
            if not direct:
                self._stopping.wait(step)
                continue
            for notice in session.connection.notifies(timeout=step, stop_after=1):
                self._heard(notice.payload)

    def _heard(self, message: str) -> None:
        kind, _, name = message.partition(":")
        if kind == wakeups.REVOKED and name == str(self._worker):
            self._inbox.post("revoked")
        elif kind == wakeups.LATER:
            self._look_again = True
        elif kind == wakeups.QUEUE and (not self._queues or name in self._queues):
            self._inbox.post("work")


def is_direct(session: BaseDatabaseWrapper) -> bool:
    """Tell whether LISTEN and session locks work here, by trying from a second session.

    A pooler in transaction mode fakes both convincingly for a lone client: the notice
    must reach an idle listener.
    """
    channel = f"buildqueue_probe_{uuid4().hex}"
    with session.cursor() as cursor:
        cursor.execute(f"LISTEN {channel}")
    with closing(locks.own_connection()) as second, second.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, '')", [channel])
    heard = list(session.connection.notifies(timeout=2.0, stop_after=1))
    with session.cursor() as cursor:
        cursor.execute(f"UNLISTEN {channel}")
    return bool(heard)
