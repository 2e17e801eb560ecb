"""How do a job and what belongs to it become answers? Without its payload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from uuid import UUID

from ...models import BuildJob, JobAction, JobEvent, LogChunk
from ...queue import questions
from ...queue.logs import position_of
from ...states import ActionStatus, EventKind, JobStatus
from .. import schemas
from .common import address, cut, fault_of, job_links, shown_object

# Their detail is the text of an exception in the host's own code.
INTERNAL_EVENTS = frozenset({EventKind.FINAL_HOOK_FAILED})


def job_of(
    row: BuildJob,
    steps: list[schemas.Step],
    build_id: UUID | None,
    verbs: schemas.Links,
) -> schemas.Job:
    """Return a job's answer."""
    return schemas.Job(
        id=row.pk,
        kind=row.kind,
        target=_target(row),
        status=row.status,
        queue=row.queue,
        owner_id=row.owner_id,
        attempt=row.attempt,
        failures=row.failures,
        crashes=row.crashes,
        max_attempts=row.max_attempts,
        created_at=row.created_at,
        due_at=row.due_at,
        first_started_at=row.first_started_at,
        picked_at=row.picked_at,
        completed_at=row.completed_at,
        error=fault_of(row.error_code, row.error_msg),
        result=None if row.result is None else shown_object(row.result),
        build_id=build_id,
        steps=steps,
        question=question_of(row),
        links=job_links(row.pk, build_id, row.agent_id, row.connector_id) | verbs,
    )


def question_of(row: BuildJob) -> schemas.Question | None:
    """Return what the job waits to be told."""
    if row.status != JobStatus.WAITING_INPUT:
        return None
    asked = getattr(getattr(row, "progress", None), "waits_for", None)
    if not isinstance(asked, Mapping) or asked.get("for") != "input":
        return None
    fields = [
        schemas.AskedField(name=name, **asdict(field))
        for name, field in questions.fields_of(asked).items()
    ]
    return schemas.Question(
        key=str(asked.get("key", "")),
        question=str(asked.get("question", "")),
        fields=fields,
    )


def action_of(row: JobAction) -> schemas.Action:
    """Return an action's answer."""
    undecided = row.status == ActionStatus.AWAITING_REVIEW
    decisions = ("approve", "deny") if undecided else ()
    return schemas.Action(
        id=row.pk,
        job_id=row.job_id,
        key=row.key,
        title=row.title,
        content=cut(row.content),
        content_hash=row.content_hash,
        status=row.status,
        needs_review=row.needs_review,
        created_at=row.created_at,
        expires_at=row.expires_at,
        decided_at=row.decided_at,
        decided_by=row.decided_by,
        reason=row.reason,
        started_at=row.started_at,
        ended_at=row.ended_at,
        receipt=cut(row.receipt),
        error=row.error_msg,
        links={"job": address("job", row.job_id)}
        | {name: address(f"action_{name}", row.pk) for name in decisions},
    )


def chunk_of(row: LogChunk) -> schemas.Chunk:
    """Return a chunk's answer."""
    return schemas.Chunk(
        position=str(position_of(row)),
        attempt=row.attempt,
        seq=row.seq,
        stream=row.stream,
        step=row.step,
        text=row.text,
        created_at=row.created_at,
    )


def event_of(row: JobEvent) -> schemas.Event:
    """Return an event's answer."""
    return schemas.Event(
        id=row.pk,
        kind=row.kind,
        title=row.title,
        attempt=row.attempt,
        actor=row.actor,
        reason=row.reason,
        detail={} if row.kind in INTERNAL_EVENTS else shown_object(row.detail),
        created_at=row.created_at,
    )


def steps_of(row: BuildJob, events: list[JobEvent]) -> list[schemas.Step]:
    """Return the steps that the events of the job's attempt tell, in their order.

    A step that began and did not end is running only while its run holds the job.
    """
    steps: list[schemas.Step] = []
    for event in events:
        if event.kind == EventKind.STEP_STARTED:
            alive = row.status == JobStatus.IN_PROGRESS and event.run == row.lease_id
            steps.append(
                schemas.Step(
                    name=event.title,
                    attempt=event.attempt,
                    status="running" if alive else "interrupted",
                    started_at=event.created_at,
                )
            )
        elif began := _began(steps, event.title):
            failed = event.kind == EventKind.STEP_FAILED
            began.status = "failed" if failed else "finished"
            began.finished_at = event.created_at
    return steps


def _began(steps: list[schemas.Step], name: str) -> schemas.Step | None:
    open_ones = (s for s in reversed(steps) if s.name == name and not s.finished_at)
    return next(open_ones, None)


def _target(row: BuildJob) -> schemas.Target | None:
    if row.agent_id:
        return schemas.Target(type="agent", id=row.agent_id)
    if row.connector_id:
        return schemas.Target(type="connector", id=row.connector_id)
    return None
