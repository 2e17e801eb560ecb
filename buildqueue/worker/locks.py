"""How do others know that a process lives? By a session lock that dies with it.

The database drops the lock when the session ends, however it ends. Observers read
pg_locks and never try to take one, so looking cannot disturb.
"""

from __future__ import annotations

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


def hold(wrapper: BaseDatabaseWrapper, name: UUID) -> None:
    """Take the lock for as long as the session lives."""
    with wrapper.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [key_of(name)])


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


GONE = """
SELECT worker.id
FROM buildqueue_worker AS worker
WHERE worker.status IN ('running', 'draining')
  AND worker.direct
  -- After a restart or failover nobody's lock is there: only the lease rule holds.
  AND worker.server_started_at = pg_postmaster_start_time()
  AND NOT EXISTS (
    SELECT 1 FROM pg_locks AS lock
    WHERE lock.locktype = 'advisory'
      AND lock.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND lock.objsubid = 1 AND lock.granted
      AND (lock.classid::bigint << 32 | lock.objid::bigint)
          = ('x' || left(replace(worker.id::text, '-', ''), 16))::bit(64)::bigint
  )
"""


def workers_without_lock() -> set[UUID]:
    """Return the workers that call themselves alive and whose session is gone."""
    with database.connection().cursor() as cursor:
        cursor.execute(GONE)
        return {row[0] for row in cursor.fetchall()}
