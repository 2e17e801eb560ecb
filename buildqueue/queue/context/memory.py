"""What does a job remember between its attempts, and show of itself meanwhile?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...exceptions import NotStorable
from ...models import JobProgress
from ...models.expressions import ClockTimestamp
from ...states import EventKind
from .. import database, documents, records, storing
from .fencing import fenced
from .parts import Run

# Beside the row's lock in an open transaction of the handler it would wait for itself. The
# lease is looked at here, so the row carries none: an earlier attempt's would be refused.
PROGRESS = """
UPDATE buildqueue_jobprogress AS row
SET done = %s, total = %s, message = %s, lease_id = NULL, updated_at = clock_timestamp()
FROM (SELECT job_id FROM buildqueue_jobprogress WHERE job_id = %s
      FOR NO KEY UPDATE SKIP LOCKED) AS free
WHERE row.job_id = free.job_id
  AND EXISTS (SELECT 1 FROM buildqueue_buildjob
              WHERE id = %s AND lease_id = %s AND lease_until > clock_timestamp())
"""

MOST: Final = 2**63 - 1  # as the columns have it
LONGEST_MESSAGE: Final = 500


class Memory:
    """The memory of a run's job."""

    @property
    def state(self: Run) -> dict[str, Any]:
        """The job's state document, as it is stored now."""
        return records.state_of(self.job.pk)

    @property
    def answers(self: Run) -> dict[str, Any]:
        """All that people have answered so far, by the names of the fields."""
        found = records.progress_of(self.job.pk)
        return dict(found.answers) if found else {}

    def checkpoint(
        self: Run,
        *,
        state: Mapping[str, Any] | None = None,
        evidence: Sequence[Any] | None = None,
        plan: Sequence[Any] | None = None,
        artifacts: Sequence[Any] | None = None,
    ) -> JobProgress:
        """Store what is given and return the row as it is then; the rest is kept.

        State is merged, objects key by key; the others are replaced. Inside a step it
        commits with the step, otherwise at once. LostLeaseError: nothing was stored.
        NotStorable neither: it is no JSON, or too deep, or too large.
        """
        self.check_lease()
        with self.outside():
            records.ensure(self.job.pk, lease=self.lease_id)
        with fenced(self):
            row = records.locked(self.job.pk)
            lists = {"evidence": evidence, "plan": plan, "artifacts": artifacts}
            given: dict[str, Any] = {
                name: storing.sequence(value, name)
                for name, value in lists.items()
                if value is not None
            }
            if state is not None:
                whole = documents.merged(row.state, storing.mapping(state, "state"))
                given["state"] = storing.mapping(whole, "state")
            for name, value in given.items():
                setattr(row, name, value)
            row.lease_id, row.updated_at = self.lease_id, ClockTimestamp()
            row.save(
                using=database.alias(),
                update_fields=[*given, "lease_id", "updated_at"],
            )
            self.record(EventKind.CHECKPOINT, ", ".join(sorted(given)))
            row.refresh_from_db(using=database.alias())
        return row

    def progress(
        self: Run, done: int, total: int | None = None, message: str = ""
    ) -> None:
        """Show how far the job is; seen at once, also from inside a step.

        While another transaction holds the row it is left out: the next one counts.
        """
        shown = [
            _count(done, "done"),
            None if total is None else _count(total, "total"),
        ]
        said = storing.text(message, "message")[:LONGEST_MESSAGE]
        with self.outside():
            records.ensure(self.job.pk, lease=self.lease_id)
            with database.connection().cursor() as cursor:
                own = [self.job.pk, self.job.pk, self.lease_id]
                cursor.execute(PROGRESS, [*shown, said, *own])
                shown_now = cursor.rowcount == 1
        if not shown_now:
            self.check_lease()


def _count(number: object, name: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise NotStorable(f"{name} must be a whole number, not {storing.shown(number)}")
    if not 0 <= number <= MOST:
        raise NotStorable(f"{name} must be from 0 on, not {storing.shown(number)}")
    return number
