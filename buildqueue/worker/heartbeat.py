"""Who keeps the leases alive, and who notices that one is gone?

A thread of the supervisor with a connection of its own: whatever the job does, stuck in
C included, its lease is renewed while slot and supervisor live. A lease that is no
longer in force, though its run did not report, was taken away: `lost` is posted and the
process ends. So it does when the database is away for longer than a lease lasts: by then
somebody else may hold the jobs.
"""

from __future__ import annotations

import logging
import threading
import time
from datetime import timedelta
from uuid import UUID

from django.db import DatabaseError, InterfaceError, connections

from .. import conf
from ..queue import database, leases
from .inbox import Inbox

logger = logging.getLogger(__name__)

LOST = """
SELECT lease FROM unnest(%s::uuid[]) AS lease
WHERE NOT EXISTS (SELECT 1 FROM buildqueue_buildjob
                  WHERE lease_id = lease AND lease_until > clock_timestamp())
  -- A run that reported has no lease either; its slot will say so in a moment.
  AND NOT EXISTS (SELECT 1 FROM buildqueue_jobrun WHERE id = lease
                  AND outcome IN ('succeeded', 'failed', 'waiting', 'released'))
"""


class Heartbeat(threading.Thread):
    """Renews what `holds` names: lease -> the slot's incarnation that holds it."""

    def __init__(self, inbox: Inbox) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._inbox = inbox
        self._lock = threading.Lock()
        self._holds: dict[UUID, UUID] = {}
        self._renewed: dict[UUID, float] = {}  # lease -> when its renewal was begun
        self._wake = threading.Event()
        self._stopping = False

    def hold(self, lease: UUID, slot: UUID) -> None:
        """Renew this lease from now on; the claim has just made it."""
        with self._lock:
            self._holds[lease] = slot
            self._renewed[lease] = time.monotonic()

    def drop(self, lease: UUID) -> None:
        """Renew it no more."""
        with self._lock:
            self._holds.pop(lease, None)
            self._renewed.pop(lease, None)

    def look_now(self) -> None:
        """Look for lost leases at once."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread."""
        self._stopping = True
        self._wake.set()

    def run(self) -> None:
        """Renew and look, once a second while anything is held."""
        while not self._stopping:
            self._wake.wait(1.0)
            self._wake.clear()
            with self._lock:
                holds, renewed = dict(self._holds), dict(self._renewed)
            if not holds:
                continue
            try:
                self._renew(holds, renewed)
                self._find_lost(holds)
            except (DatabaseError, InterfaceError) as error:
                logger.warning("leases not renewed, trying again: %s", error)
                connections[database.alias()].close()
                self._give_up_old(renewed)
        connections[database.alias()].close()

    def _renew(self, holds: dict[UUID, UUID], renewed: dict[UUID, float]) -> None:
        begun = time.monotonic()
        late = begun - conf.get().renewal_seconds
        due = {holds[lease] for lease, at in renewed.items() if at <= late}
        if not due:
            return
        lease_time = timedelta(seconds=conf.get().lease_seconds)
        done = leases.renew(sorted(due), lease_time)
        with self._lock:
            for lease in done & set(self._renewed):
                self._renewed[lease] = begun

    def _find_lost(self, holds: dict[UUID, UUID]) -> None:
        with database.connection().cursor() as cursor:
            cursor.execute(LOST, [list(holds)])
            lost = [row[0] for row in cursor.fetchall()]
        for lease in lost:
            self._inbox.post("lost", lease)

    def _give_up_old(self, renewed: dict[UUID, float]) -> None:
        over = time.monotonic() - conf.get().lease_seconds
        for lease, at in renewed.items():
            if at <= over:
                self._inbox.post("lost", lease)
