"""Who keeps the leases alive, and who notices that one is gone?

A thread of the supervisor with a connection of its own: whatever the job does, stuck in
C included, its lease is renewed while slot and supervisor live. `renewed` tells the main
loop until when, and by it the slot's guardian: if nothing comes, because the supervisor
is frozen or the database is away, the guardian ends the slot at that moment, by which
somebody else may hold the job. A lease that is no longer in force, though its run did
not report, was taken away: `lost` is posted and the process ends.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from uuid import UUID

from django.db import DatabaseError, InterfaceError, connections

from .. import conf
from ..queue import database, leases
from . import linux, locks
from .inbox import Inbox
from .outages import Outages

LOST = """
SELECT lease FROM unnest(%s::uuid[]) AS lease
WHERE NOT EXISTS (SELECT 1 FROM buildqueue_buildjob
                  WHERE lease_id = lease AND lease_until > clock_timestamp())
  -- A run that reported has no lease either; its slot will say so in a moment.
  AND NOT EXISTS (SELECT 1 FROM buildqueue_jobrun WHERE id = lease
                  AND outcome IN ('succeeded', 'failed', 'waiting', 'released'))
"""


class Heartbeat(threading.Thread):
    """Renews the leases that it is told to hold."""

    def __init__(self, inbox: Inbox, outages: Outages) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._inbox, self._outages = inbox, outages
        self._lock = threading.Lock()
        self._renewed: dict[UUID, float] = {}  # when claim or renewal was begun
        self._wake = threading.Event()
        self._stopping = False

    def hold(self, lease: UUID, claimed_at: float) -> None:
        """Renew this lease from now on."""
        with self._lock:
            self._renewed[lease] = claimed_at

    def drop(self, lease: UUID) -> None:
        """Renew it no more."""
        with self._lock:
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
        locks.steady_here()
        pause = 1.0
        while not self._stopping:
            self._wake.wait(pause)
            self._wake.clear()
            pause = self._beat()
        connections[database.alias()].close()

    def _beat(self) -> float:
        """Renew what is due and look for what is lost; return the pause until the next."""
        with self._lock:
            held = dict(self._renewed)
        try:
            if held:
                locks.drop_severed()
                self._renew(held)
                self._find_lost(list(held))
        except (DatabaseError, InterfaceError) as error:
            connections[database.alias()].close()
            pause = self._outages.failed("renewal of leases", error)
            return min(pause, conf.get().renewal_seconds / 4)
        self._outages.well("renewal of leases")
        return 1.0

    def _renew(self, held: dict[UUID, float]) -> None:
        begun = linux.boottime()
        late = begun - conf.get().renewal_seconds
        due = [lease for lease, renewed in held.items() if renewed <= late]
        if not due:
            return
        seconds = conf.get().lease_seconds
        done = leases.renew(due, timedelta(seconds=seconds))
        with self._lock:
            for lease in done & set(self._renewed):
                self._renewed[lease] = begun
                self._inbox.post("renewed", (lease, begun + seconds))

    def _find_lost(self, held: list[UUID]) -> None:
        with database.connection().cursor() as cursor:
            cursor.execute(LOST, [held])
            lost = [row[0] for row in cursor.fetchall()]
        for lease in lost:
            self._inbox.post("lost", lease)
