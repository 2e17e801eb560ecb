"""What is a change, and what does the timeline keep of it? Who, what, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from ...exceptions import InvalidOption, InvalidTransition, Refused
from ...models import BuildJob, JobEvent
from ...states import JobStatus, Transition
from .. import database, storing
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
    waits_for: dict[str, Any] | None = None  # of a change to waiting

    def __post_init__(self) -> None:
        """Refuse a target that the transition does not have: a fault of the caller."""
        if self.target not in self.transition.targets:
            raise ValueError(f"{self.transition.name} does not lead to {self.target}")


def said(reason: object) -> str:
    """Return a person's reason, None as an empty one; InvalidOption when it is no text."""
    if reason is None:
        return ""
    if not isinstance(reason, str):
        raise InvalidOption({"reason": f"must be text, not {storing.shown(reason)}"})
    return reason


def demand_reason(reason: str) -> None:
    """Refuse, with reason_required, what a person wants done without saying why."""
    if not said(reason).strip():
        raise Refused("reason_required", "Say why: the job's history keeps it.")


def named(job_id: object, verb: str) -> UUID:
    """Return the id that a verb was given; InvalidTransition when no job has such a one."""
    found = storing.identifier(job_id)
    if found is None:
        raise InvalidTransition(job_id, verb, None)
    return found


def record(
    job: BuildJob,
    kind: str,
    *,
    change: Change | None = None,
    run: UUID | None = None,
    title: str = "",
    detail: dict[str, Any] | None = None,
    actor: Actor | None = None,
    reason: str = "",
) -> None:
    """Write one event of the job's timeline; who and why come from the change, if any."""
    if change is not None:
        actor, reason = change.actor, change.reason
        title = title or change.target
        detail = change.detail if detail is None else detail
    JobEvent.objects.using(database.alias()).create(
        job_id=job.pk,
        run=run,
        attempt=job.attempt,
        kind=kind,
        title=title[:200],
        detail=detail or {},
        actor=actor.label if actor else "",
        actor_id=actor.id if actor else "",
        reason=reason,
    )
