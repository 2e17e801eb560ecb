"""How does the run itself talk to a database that it keeps restarting? Again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connection

T = TypeVar("T")
LONGEST = 120.0


def patiently(function: Callable[[], T]) -> T:
    """Call a function that may be repeated until the database takes it."""
    deadline = time.monotonic() + LONGEST
    while True:
        try:
            return function()
        except (OperationalError, InterfaceError):
            if time.monotonic() > deadline:
                raise
            connection.close()
            time.sleep(0.05)
