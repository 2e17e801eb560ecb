"""How does a run have other jobs done, and learn how they ended?

A child is enqueued once for its key, in the transaction of whatever step is open, with the
checkpoint that remembers it. Returning `WaitForChildren()` frees the slot; the last
child's final transaction wakes the parent, whose handler then runs again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from ...models import BuildJob, Checkpoint
from ...states import EventKind
from .. import database, enqueueing
from ..outcomes import WORKER
from .fencing import fenced
from .parts import Run
from .steps import Step, write_checkpoint


class Offspring:
    """The children of a run's job."""

    def spawn(
        self: Run, key: str, payload: BaseModel | Mapping[str, Any], **options: Any
    ) -> UUID:
        """Enqueue a child, unless an attempt has done so under this key; return its id.

        Options are those of `enqueue`; the owner is the parent's unless another is named.
        Refused with `child_depth` when there are too many generations.
        """
        self.check_lease()
        step = Step(f"child:{key}"[:200])
        with fenced(self):
            known = Checkpoint.objects.using(database.alias())
            found = known.filter(job_id=self.job.pk, step=step.name).first()
            if found is not None:
                return UUID(found.result["job"])
            options.setdefault("owner_id", self.job.owner_id)
            child = enqueueing.enqueue(
                payload, parent=self.job, actor=WORKER, **options
            )
            step.result = {"job": str(child.pk)}
            write_checkpoint(self, step)
            told = {"child": str(child.pk), "kind": child.kind}
            self.record(EventKind.CHILD_SPAWNED, key, told)
        return child.pk

    def children(self: Run) -> list[BuildJob]:
        """Return the job's children as they are now, in the order of their making."""
        jobs = BuildJob.objects.using(database.alias())
        return list(jobs.filter(parent_id=self.job.pk).order_by("seq"))
