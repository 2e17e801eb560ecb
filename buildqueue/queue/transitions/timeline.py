"""What is a change, and what does the timeline keep of it?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from ...models import BuildJob, JobEvent
from ...states import JobStatus, Transition
from .. import database
from ..outcomes import SYSTEM, Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One transition to apply to one job."""

    transition: Transition
    target: JobStatus
    actor: Actor = SYSTEM
    reason: str = ""
    values: dict[str, Any] = field(default_factory=dict)  # other columns of the job
    run: dict[str, Any] | None = None  # how the run ended; None: its process may live
    detail: dict[str, Any] = field(default_factory=dict)  # of the event

    def __post_init__(self) -> None:
        """Refuse a target that the transition does not have: a fault of the caller."""
        if self.target not in self.transition.targets:
            raise ValueError(f"{self.transition.name} does not lead to {self.target}")


def record(
    job: BuildJob,
    kind: str,
    *,
    change: Change | None = None,
    run: UUID | None = None,
    title: str = "",
    detail: dict[str, Any] | None = None,
) -> None:
    """Write one event of the job's timeline."""
    JobEvent.objects.using(database.alias()).create(
        job_id=job.pk,
        run=run,
        attempt=job.attempt,
        kind=kind,
        title=title or (change.target if change else ""),
        detail=detail if detail is not None else (change.detail if change else {}),
        actor=change.actor.label if change else "",
        actor_id=change.actor.id if change else "",
        reason=change.reason if change else "",
    )
