"""What time is it? Here only for display and local waits.

Leases and due times are compared by the database's clock alone (`Now()`): the clocks
of workers lie.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now() -> datetime:
    """Return this host's time, aware, for display and log lines."""
    return datetime.now(UTC)


def monotonic() -> float:
    """Return seconds that never go back, for waits inside one process."""
    return time.monotonic()
