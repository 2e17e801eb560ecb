"""How does a run have other jobs done, and learn how they ended?

A child is enqueued once for its key, in the transaction of whatever step is open, with the
checkpoint that remembers it. Returning `WaitForChildren()` frees the slot; the last
child's final transaction wakes the parent, whose handler then runs again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel

from ...exceptions import InvalidOption
from ...models import BuildJob, Checkpoint
from ...states import EventKind
from .. import database, enqueueing, storing
from ..outcomes import WORKER
from .fencing import fenced
from .parts import Run
from .steps import CHILD, Step, StepRepeated, write_checkpoint

LONGEST_KEY: Final = 190  # with what begins it, it is the name of a step


class Offspring:
    """The children of a run's job."""

    def spawn(
        self: Run, key: str, payload: BaseModel | Mapping[str, Any], **options: Any
    ) -> UUID:
        """Enqueue a child, unless an attempt has done so under this key; return its id.

        Options are those of `enqueue`; the owner is the parent's unless another is named.
        Refused with `child_depth` when there are too many generations. Of two threads
        that spawn under one key, one does, and both get its child.
        """
        step = Step(CHILD + storing.name(key, LONGEST_KEY, "a child's key"))
        if options.get("on_duplicate", "reject") != "reject":
            # Whoever holds the dedupe key is no child: nobody would wait for it.
            raise InvalidOption(
                {"on_duplicate": "must be left out: a child is made once for its key"}
            )
        self.check_lease()
        try:
            with fenced(self):
                if (known := _child(self, step)) is not None:
                    return known
                options.setdefault("owner_id", self.job.owner_id)
                child = enqueueing.enqueue(
                    payload, parent=self.job, actor=WORKER, **options
                )
                step.result = {"job": str(child.pk)}
                write_checkpoint(self, step)
                told = {"child": str(child.pk), "kind": child.kind}
                self.record(EventKind.CHILD_SPAWNED, key, told)
        except StepRepeated:
            if (known := _child(self, step)) is None:
                raise
            return known
        return child.pk

    def children(self: Run) -> list[BuildJob]:
        """Return the job's children as they are now, in the order of their making."""
        jobs = BuildJob.objects.using(database.alias())
        return list(jobs.filter(parent_id=self.job.pk).order_by("seq"))


def _child(run: Run, step: Step) -> UUID | None:
    """Return the child that was spawned in this step, if one was."""
    known = Checkpoint.objects.using(database.alias())
    found = known.filter(job_id=run.job.pk, step=step.name).first()
    return None if found is None else UUID(found.result["job"])
