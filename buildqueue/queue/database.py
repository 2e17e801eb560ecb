"""Which connection do jobs live on, and what when it is lost?

The router's write alias of `BuildJob`. A write that is safe to repeat is tried again
until the moment after which somebody else may do it.
"""

from __future__ import annotations

import logging
import select
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from django.db import (
    DatabaseError,
    InterfaceError,
    OperationalError,
    connections,
    router,
    transaction,
)
from django.db.backends.base.base import BaseDatabaseWrapper

from ..models import BuildJob

logger = logging.getLogger(__name__)
T = TypeVar("T")

FENCE_VIOLATION = "BQ001"  # what the triggers of the fence raise at a commit


def alias() -> str:
    """Return the alias that every write of the engine goes to."""
    return router.db_for_write(BuildJob)


def connection() -> BaseDatabaseWrapper:
    """Return this thread's connection to it."""
    return connections[alias()]


def atomic() -> AbstractContextManager[None]:
    """Open a transaction (or a savepoint inside one) on it."""
    return transaction.atomic(using=alias())


def open_blocks() -> int:
    """Return how many atomic blocks are open on it, one in another."""
    return len(connection().atomic_blocks)


def leave_blocks(entered: int) -> None:
    """Roll back the blocks that were opened since there were so many."""
    left_open = RuntimeError("left open by a handler")
    while open_blocks() > entered:
        connection().atomic_blocks[-1].__exit__(RuntimeError, left_open, None)


def severed(wrapper: BaseDatabaseWrapper) -> bool:
    """Tell, without asking the server, whether it has closed this idle connection."""
    connection = wrapper.connection
    if connection is None or connection.closed:
        return True
    return bool(select.select([connection], [], [], 0)[0])


@contextmanager
def through(wrapper: BaseDatabaseWrapper) -> Iterator[None]:
    """Have the engine use this connection for a while, in this thread."""
    usual = connection()
    connections[alias()] = wrapper
    try:
        yield
    finally:
        connections[alias()] = usual


def is_fence_violation(error: DatabaseError) -> bool:
    """Tell whether the database refused a write because its lease is gone."""
    return getattr(error.__cause__, "sqlstate", None) == FENCE_VIOLATION


def keep_trying(function: Callable[[], T], *, until: float, what: str) -> T:
    """Call a function that may be repeated until the database takes it.

    Only a lost connection is tried again, and only until the monotonic moment.
    """
    pause = 0.05
    while True:
        try:
            return function()
        except (OperationalError, InterfaceError) as error:
            if time.monotonic() > until:
                raise
            logger.warning("%s failed, trying again: %s", what, error)
            connection().close()
            time.sleep(pause)
            pause = min(pause * 2, 2.0)
