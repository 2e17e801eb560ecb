"""How do others know that a process lives? By a session lock that dies with it.

The database drops the lock when the session ends, however it ends. Observers read
pg_locks and never try to take one, so looking cannot disturb.
"""

from __future__ import annotations

import select
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from .. import conf
from ..queue import database


def key_of(name: UUID) -> int:
    """Return the 64-bit advisory lock key of a worker or slot."""
    return int.from_bytes(name.bytes[:8], "big", signed=True)


def own_connection() -> BaseDatabaseWrapper:
    """Open a connection that no handler knows, past any pooler if one is named."""
    alias = conf.get().direct_database or database.alias()
    wrapper = connections[alias].copy()
    wrapper.connect()
    return wrapper


@contextmanager
def instead_of_usual(wrapper: BaseDatabaseWrapper) -> Iterator[None]:
    """Have the engine use this connection for a while, in this thread."""
    usual = database.connection()
    connections[database.alias()] = wrapper
    try:
        yield
    finally:
        connections[database.alias()] = usual


def severed(wrapper: BaseDatabaseWrapper) -> bool:
    """Tell, without asking the server, whether it has closed this idle connection."""
    connection = wrapper.connection
    if connection is None or connection.closed:
        return True
    return bool(select.select([connection], [], [], 0)[0])


def hold(wrapper: BaseDatabaseWrapper, name: UUID) -> bool:
    """Take the lock for as long as the session lives; false when somebody has it.

    After a cut in the network the server may keep the old session, and with it the
    lock, for a while: then try again later, and do not wait.
    """
    with wrapper.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [key_of(name)])
        return bool(cursor.fetchone()[0])


def wait_until_free(wrapper: BaseDatabaseWrapper, name: UUID, seconds: float) -> None:
    """Wait until nobody holds the lock; OperationalError after the time-out."""
    with wrapper.cursor() as cursor:
        cursor.execute("BEGIN")
        try:
            cursor.execute(
                "SELECT set_config('lock_timeout', %s, true)", [f"{seconds}s"]
            )
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [key_of(name)])
        finally:
            cursor.execute("ROLLBACK")
