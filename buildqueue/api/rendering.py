"""How does a row become an answer? Without payloads, secrets or tracebacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.urls import reverse

from ..models import Agent, AgentBuild, BuildJob, JobAction, JobEvent, LogChunk
from ..queue import questions, storing
from ..queue.logs import position_of
from ..states import ActionStatus, EventKind, JobStatus
from . import schemas

# Their detail is the text of an exception in the host's own code.
INTERNAL_EVENTS = frozenset({EventKind.FINAL_HOOK_FAILED})
# Of what is stored through the engine nothing is deeper: raw SQL may be.
DEEPEST = storing.DEEPEST + 1


def address(name: str, key: UUID) -> str:
    """Return the path of one of our addresses."""
    return reverse(f"buildqueue:{name}", args=[key])


def job_links(
    job_id: UUID, build_id: UUID | None, agent_id: UUID | None
) -> schemas.Links:
    """Return where a job and what belongs to it is found."""
    links = {
        "self": address("job", job_id),
        "job": address("job", job_id),
        "log": address("job_log", job_id),
        "events": address("job_events", job_id),
        "actions": address("job_actions", job_id),
    }
    if build_id:
        links["build"] = address("build", build_id)
    if agent_id:
        links["agent"] = address("agent", agent_id)
    return links


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
        error=_fault(row.error_code, row.error_msg),
        result=None if row.result is None else _object(row.result),
        build_id=build_id,
        steps=steps,
        question=question_of(row),
        links=job_links(row.pk, build_id, row.agent_id) | verbs,
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
        content=_cut(row.content),
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
        receipt=_cut(row.receipt),
        error=row.error_msg,
        links={"job": address("job", row.job_id)}
        | {name: address(f"action_{name}", row.pk) for name in decisions},
    )


def build_of(row: AgentBuild) -> schemas.Build:
    """Return a build's answer."""
    links = {
        "self": address("build", row.pk),
        "log": address("build_log", row.pk),
        "agent": address("agent", row.agent_id),
    }
    if row.job_id:
        links["job"] = address("job", row.job_id)
    return schemas.Build(
        id=row.pk,
        agent_id=row.agent_id,
        agent_name=row.agent.name,
        version=row.version_tag,
        status=row.status,
        phase=row.phase,
        commit_hash=row.commit_hash,
        source_sha256=row.source_sha256,
        error=_fault(row.error_code, row.error_msg),
        created_at=row.created_at,
        updated_at=row.updated_at,
        completed_at=row.completed_at,
        job_id=row.job_id,
        links=links,
    )


def agent_of(row: Agent) -> schemas.AgentOut:
    """Return an agent's answer."""
    return schemas.AgentOut(
        id=row.pk,
        name=row.name,
        display_name=row.display_name,
        description=row.description,
        owner_id=row.owner_id,
        status=row.status,
        version=row.version,
        url=row.url,
        created_at=row.created_at,
        updated_at=row.updated_at,
        links={
            "self": address("agent", row.pk),
            "stop": address("agent_stop", row.pk),
        },
    )


def chunk_of(row: LogChunk) -> schemas.Chunk:
    """Return a chunk's answer."""
    return schemas.Chunk(
        position=str(position_of(row)),
        attempt=row.attempt,
        seq=row.seq,
        stream=row.stream,
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
        detail={} if row.kind in INTERNAL_EVENTS else _object(row.detail),
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


def _object(document: Any) -> dict[str, Any]:
    """Return what is shown of a column that holds an object, unless others wrote it."""
    shown = _cut(document)
    return shown if isinstance(shown, dict) else {"value": shown}


def _cut(document: Any, depth: int = 0) -> Any:
    """Return the document without what no reader of JSON would go down to."""
    match document:
        case dict() | list() if depth >= DEEPEST:
            return "…"
        case dict():
            return {name: _cut(value, depth + 1) for name, value in document.items()}
        case list():
            return [_cut(value, depth + 1) for value in document]
    return document


def _target(row: BuildJob) -> schemas.Target | None:
    if row.agent_id:
        return schemas.Target(type="agent", id=row.agent_id)
    if row.connector_id:
        return schemas.Target(type="connector", id=row.connector_id)
    return None


def _fault(code: str | None, message: str | None) -> schemas.Fault | None:
    if code is None and message is None:
        return None
    return schemas.Fault(code=code or "failed", message=message or "")
