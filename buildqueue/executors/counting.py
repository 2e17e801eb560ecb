"""What does a reconciliation count, and how patient is it?"""

from __future__ import annotations

from dataclasses import dataclass, field

CRASHES_TO_TELL = 5
LOG_LINES = 20
RESTORE_TRIES = 10
RESTORE_SECONDS = 1.0


@dataclass(slots=True)
class Counts:
    """What one reconciliation did."""

    deleted: int = 0
    ended: int = 0
    restored: int = 0
    corrected: int = 0
    crashed: int = 0
    recovered: int = 0
    folders: int = 0
    failed: list[str] = field(default_factory=list)  # workloads that could not be
