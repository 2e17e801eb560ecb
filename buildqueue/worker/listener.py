"""How does a worker hear of work? By LISTEN where the connection is direct, and a poll.

One thread with one connection: it listens, holds the worker's session lock, and with
each poll tells the worker's row that it lives (one statement). Without a direct
connection, as behind a pooler in transaction mode, only the poll is left, more often.
The connection is made anew whenever it is lost.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from uuid import UUID, uuid4

import psycopg
from django.db import DatabaseError, InterfaceError
from django.db.backends.base.base import BaseDatabaseWrapper

from .. import conf
from ..queue import wakeups
from . import locks
from .inbox import Inbox
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
    EXISTS (SELECT 1 FROM buildqueue_buildjob
            WHERE status = 'pending' AND NOT held AND due_at <= clock_timestamp()
              AND (%(all)s OR queue = ANY(%(queues)s))),
    (SELECT extract(epoch FROM min(due_at) - clock_timestamp())
     FROM buildqueue_buildjob WHERE status = 'scheduled')
"""


class Listener(threading.Thread):
    """Posts `work` (there may be some) and `revoked` (a lease was taken away)."""

    def __init__(
        self, inbox: Inbox, worker: UUID, queues: tuple[str, ...], poll: float | None
    ) -> None:
        super().__init__(name="listener", daemon=True)
        self.beat = Beat()
        self._inbox, self._worker = inbox, worker
        self._queues, self._poll = queues, poll
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Ask the thread to end; it does within a second."""
        self._stopping.set()

    def run(self) -> None:
        """Listen and look until stopped; a lost connection is made anew."""
        while not self._stopping.is_set():
            try:
                with self._session() as session:
                    self._serve(session)
            except (DatabaseError, InterfaceError, psycopg.Error) as error:
                logger.warning("no connection for wake-ups, trying again: %s", error)
                self._stopping.wait(1.0)

    @contextmanager
    def _session(self) -> Iterator[BaseDatabaseWrapper]:
        with closing(locks.own_connection()) as session:
            yield session

    def _serve(self, session: BaseDatabaseWrapper) -> None:
        direct = is_direct(session)
        if direct:
            locks.hold(session, self._worker)
            with session.cursor() as cursor:
                cursor.execute(f"LISTEN {wakeups.CHANNEL}")
        else:
            logger.warning("the database is behind a pooler: polling only")
        now = conf.get()
        pause = self._poll or (
            now.poll_seconds if direct else now.poll_seconds_without_listen
        )
        while not self._stopping.is_set():
            wait = min(pause, self._look(session, direct))
            self._wait(session, wait, direct)

    def _look(self, session: BaseDatabaseWrapper, direct: bool) -> float:
        """Beat, look for work, return the seconds until the next scheduled job."""
        values = {
            "busy": self.beat.busy,
            "status": self.beat.status,
            "direct": direct,
            "worker": self._worker,
            "all": not self._queues,
            "queues": list(self._queues),
        }
        with session.cursor() as cursor:
            cursor.execute(LOOK, values)
            ready, due_in = cursor.fetchone()
        if ready:
            self._inbox.post("work")
        if due_in is None:
            return float("inf")
        return max(float(due_in), 0.05)

    def _wait(self, session: BaseDatabaseWrapper, seconds: float, direct: bool) -> None:
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0 and not self._stopping.is_set():
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
