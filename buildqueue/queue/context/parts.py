"""What do the parts of a context need of the whole?"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from ...exceptions import SoftTimeLimit
from ...models import BuildJob
from ...states import EventKind

# Raises the error in the handler when the block takes longer than so many seconds.
Alarm = Callable[[float, SoftTimeLimit], AbstractContextManager[None]]


class Run(Protocol):
    """One run: its job, its lease, and how it tells what it does."""

    job: BuildJob
    lease_id: UUID
    session: BaseDatabaseWrapper | None
    alarm: Alarm | None
    blocks: int

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""

    def log(self, line: str) -> None:
        """Print a line of the job's log."""

    def check_lease(self) -> None:
        """Raise LostLeaseError when the job no longer belongs to this run."""

    def outside(self) -> AbstractContextManager[None]:
        """Go past a transaction that the handler has open."""

    def tell(
        self, kind: EventKind, title: str, detail: dict[str, Any] | None = None
    ) -> None:
        """Write an event, seen at once."""

    def record(
        self, kind: EventKind, title: str, detail: dict[str, Any] | None = None
    ) -> None:
        """Write an event into the open transaction."""
