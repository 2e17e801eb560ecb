"""Which connection do jobs live on? The router's write alias of `BuildJob`."""

from __future__ import annotations

from contextlib import AbstractContextManager

from django.db import connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from ..models import BuildJob


def alias() -> str:
    """Return the alias that every write of the engine goes to."""
    return router.db_for_write(BuildJob)


def connection() -> BaseDatabaseWrapper:
    """Return this thread's connection to it."""
    return connections[alias()]


def atomic() -> AbstractContextManager[None]:
    """Open a transaction (or a savepoint inside one) on it."""
    return transaction.atomic(using=alias())
