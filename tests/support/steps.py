"""How does a test run a step, and see what it has left in the database?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from buildqueue.models import Checkpoint
from buildqueue.queue.context import Context
from buildqueue.queue.context.steps import Step
from tests.host.models import Effect


def effects(label: str | None = None) -> int:
    """Return how many effects there are, of all labels or of this one."""
    found = (
        Effect.objects.all() if label is None else Effect.objects.filter(label=label)
    )
    return found.count()


def checkpoints(ctx: Context) -> dict[str, Any]:
    """Return the results of the steps that the job has done."""
    rows = Checkpoint.objects.filter(job_id=ctx.job.pk)
    return dict(rows.values_list("step", "result"))


def run_step(
    ctx: Context, name: str, body: Callable[[Step], object], **how: bool
) -> None:
    """Run a step with this body."""
    with ctx.step(name, **how) as step:
        body(step)


def charge_card(step: Step) -> None:
    """Leave an effect, as the body of a step."""
    Effect.objects.create(label="charge")
