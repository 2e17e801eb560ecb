"""What does a job remember between its attempts, and show of itself meanwhile?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...models import JobProgress
from ...models.expressions import ClockTimestamp
from ...states import EventKind
from .. import database, documents, logs, records
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
        """
        self.check_lease()
        with self.outside():
            records.ensure(self.job.pk, lease=self.lease_id)
        with fenced(self):
            row = records.locked(self.job.pk)
            if state is not None:
                row.state = documents.merged(row.state, logs.storable_json(dict(state)))
            given = {"evidence": evidence, "plan": plan, "artifacts": artifacts}
            changed = {
                name: value for name, value in given.items() if value is not None
            }
            for name, value in changed.items():
                setattr(row, name, logs.storable_json(list(value)))
            row.lease_id, row.updated_at = self.lease_id, ClockTimestamp()
            row.save(
                using=database.alias(),
                update_fields=["state", *given, "lease_id", "updated_at"],
            )
            names = sorted([*changed, *(["state"] if state is not None else [])])
            self.record(EventKind.CHECKPOINT, ", ".join(names))
            row.refresh_from_db(using=database.alias())
        return row

    def progress(
        self: Run, done: int, total: int | None = None, message: str = ""
    ) -> None:
        """Show how far the job is; seen at once, also from inside a step.

        While another transaction holds the row it is left out: the next one counts.
        """
        with self.outside():
            records.ensure(self.job.pk, lease=self.lease_id)
            shown = [done, total, logs.storable(message)[:500]]
            with database.connection().cursor() as cursor:
                own = [self.job.pk, self.job.pk, self.lease_id]
                cursor.execute(PROGRESS, [*shown, *own])
                shown_now = cursor.rowcount == 1
        if not shown_now:
            self.check_lease()
