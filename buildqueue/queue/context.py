"""What does a handler get? Its job, its lease, and ways to tell where it is.

Every write of a context is fenced: once the lease is gone it raises LostLeaseError and
has written nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ..exceptions import LostLeaseError
from ..models import BuildJob
from ..states import EventKind
from . import database, leases, logs

STEP_EVENT = """
INSERT INTO buildqueue_jobevent (job_id, run, attempt, kind, title, detail, actor)
SELECT id, lease_id, attempt, %s, %s, %s::jsonb, 'worker'
FROM buildqueue_buildjob
WHERE id = %s AND lease_id = %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One run, as its handler sees it."""

    job: BuildJob
    lease_id: UUID

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self.job.attempt

    def log(self, line: str) -> None:
        """Print a line of the job's log, at once."""
        sys.stdout.write(line.rstrip("\n") + "\n")
        sys.stdout.flush()

    def check_lease(self) -> None:
        """Raise LostLeaseError when the job no longer belongs to this run."""
        if not leases.held([self.lease_id]):
            raise LostLeaseError(self.job.pk, self.lease_id)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Tell the timeline when a named part begins and ends.

        If the process dies inside, the timeline shows the step as begun and the run as
        crashed.
        """
        self.log(f"==> {name}")
        self._tell(EventKind.STEP_STARTED, name)
        try:
            yield
        except LostLeaseError:
            raise
        except BaseException as error:
            self._tell(EventKind.STEP_FAILED, name, {"error": type(error).__name__})
            raise
        self._tell(EventKind.STEP_FINISHED, name)

    def note(self, title: str, **detail: Any) -> None:
        """Write a fact of the handler's own into the timeline."""
        self._tell(EventKind.NOTE, title, detail)

    def _tell(
        self, kind: EventKind, title: str, detail: dict[str, Any] | None = None
    ) -> None:
        told = json.dumps(logs.storable_json(detail or {}), default=str)
        values = [kind.value, logs.storable(title)[:200], told]
        with database.connection().cursor() as cursor:
            cursor.execute(STEP_EVENT, [*values, self.job.pk, self.lease_id])
            if cursor.rowcount != 1:
                raise LostLeaseError(self.job.pk, self.lease_id)
