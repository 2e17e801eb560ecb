"""Which wake-ups did other sessions hear, and which were never sent?

PostgreSQL delivers notices in the order of commits: all that was sent before a marker
has been heard when the marker is.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from buildqueue.queue.wakeups import CHANNEL

from .scratch import url_of


class Notices:
    """What an idle listener hears."""

    def __init__(self, session: psycopg.Connection, sender: psycopg.Connection) -> None:
        self._session, self._sender = session, sender

    def heard(self) -> list[str]:
        """Return the messages that were committed since the last call."""
        marker = uuid.uuid4().hex
        self._sender.execute("SELECT pg_notify(%s, %s)", [CHANNEL, marker])
        found: list[str] = []
        for notice in self._session.notifies(timeout=60):
            if notice.payload == marker:
                return found
            found.append(notice.payload)
        raise AssertionError(f"the marker was not heard; heard {found}")


@contextmanager
def listening(database: str) -> Iterator[Notices]:
    """Listen on the channel of wake-ups."""
    url = url_of(database)
    with (
        psycopg.connect(url, autocommit=True) as session,
        psycopg.connect(url, autocommit=True) as sender,
    ):
        session.execute(f"LISTEN {CHANNEL}")
        yield Notices(session, sender)
