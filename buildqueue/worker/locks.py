"""How do others know that a process lives? By a session lock that dies with it.

The database drops the lock when the session ends, however it ends. Observers read
pg_locks and never try to take one, so looking cannot disturb. Behind a pooler in
transaction mode a session is nobody's own: there only locks of a transaction are taken.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from .. import conf
from ..queue import database

# A server that is cut off is given up within half a minute, not after the quarter of an
# hour that the network's defaults allow. What the host's OPTIONS say goes before.
STEADY: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}

LONGEST_GUARD = 300  # seconds
GUARD = """
WITH limited AS MATERIALIZED (
    SELECT set_config('idle_in_transaction_session_timeout', %s, true)
)
SELECT pg_try_advisory_xact_lock(%s, %s) FROM limited
"""


def key_of(name: UUID) -> int:
    """Return the 64-bit advisory lock key of a worker or slot."""
    return int.from_bytes(name.bytes[:8], "big", signed=True)


def own_connection() -> BaseDatabaseWrapper:
    """Open a connection that no handler knows, past any pooler if one is named."""
    wrapper = _steady(conf.get().direct_database or database.alias())
    wrapper.ensure_connection()  # which, unlike connect(), raises Django's errors
    return wrapper


def steady_here() -> None:
    """Have the engine's connection of this thread give up a server that is cut off."""
    connections[database.alias()] = _steady(database.alias())


def _steady(alias: str) -> BaseDatabaseWrapper:
    wrapper = connections[alias].copy()
    options = STEADY | _of_environment() | wrapper.settings_dict["OPTIONS"]
    # A session of a pool within the process is not ended by closing it: its locks stay.
    options.pop("pool", None)
    wrapper.settings_dict["OPTIONS"] = options
    return wrapper


def _of_environment() -> dict[str, Any]:
    told = os.environ.get("PGCONNECT_TIMEOUT", "")
    return {"connect_timeout": int(told)} if told.isdecimal() else {}


def drop_severed() -> None:
    """Let this thread connect anew when its idle connection was cut: no trouble yet."""
    usual = database.connection()
    if usual.connection is not None and database.severed(usual):
        usual.close()


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


@contextmanager
def guarding(space: int, number: int) -> Iterator[bool]:
    """Be the only one in this block; false when somebody else is.

    The lock is of a transaction, which a pooler keeps together, on a connection that
    does nothing else: what the block does has transactions of its own. The server ends
    it after a while, lest a frozen or cut-off holder keep the others out for ever; then,
    or when it is lost, another one may come in: changes need guards of their own.
    """
    with closing(own_connection()) as session, session.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(GUARD, [f"{LONGEST_GUARD}s", space, number])
        yield bool(cursor.fetchone()[0])
