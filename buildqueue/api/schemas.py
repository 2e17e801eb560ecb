"""What do answers look like? The fields of each, as the OpenAPI schema tells them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias
from uuid import UUID

from ninja import Schema

Links: TypeAlias = dict[str, str]


class Fault(Schema):
    """Why it failed."""

    code: str
    message: str


class Target(Schema):
    """What the job is for."""

    type: Literal["agent", "connector"]
    id: UUID


class Step(Schema):
    """A named part of the current attempt."""

    name: str
    attempt: int
    status: Literal["running", "finished", "failed", "interrupted"]
    started_at: datetime
    finished_at: datetime | None = None


class AskedField(Schema):
    """One thing that a job asks for."""

    name: str
    type: str
    label: str
    help: str
    required: bool
    choices: list[str]


class Question(Schema):
    """What a job waits to be told; name its key with the answer."""

    key: str
    question: str
    fields: list[AskedField]


class Job(Schema):
    """A job, as it is now."""

    id: UUID
    kind: str
    target: Target | None
    status: str
    queue: str
    owner_id: str
    attempt: int
    failures: int
    crashes: int
    max_attempts: int
    created_at: datetime
    due_at: datetime
    first_started_at: datetime | None
    picked_at: datetime | None
    completed_at: datetime | None
    error: Fault | None
    result: dict[str, Any] | None
    build_id: UUID | None
    steps: list[Step]
    question: Question | None
    links: Links


class Action(Schema):
    """An effect in the outside world that must not happen twice."""

    id: UUID
    job_id: UUID
    key: str
    title: str
    content: Any
    content_hash: str
    status: str
    needs_review: bool
    created_at: datetime
    expires_at: datetime | None
    decided_at: datetime | None
    decided_by: str
    reason: str
    started_at: datetime | None
    ended_at: datetime | None
    receipt: Any
    error: str | None
    links: Links


class Actions(Schema):
    """The actions of a job, in the order they were proposed."""

    actions: list[Action]


class Build(Schema):
    """A build, as it is now."""

    id: UUID
    agent_id: UUID
    agent_name: str
    version: str
    status: str
    phase: str | None
    commit_hash: str | None
    source_sha256: str | None
    error: Fault | None
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    job_id: UUID | None
    links: Links


class AgentOut(Schema):
    """An agent, as it is now."""

    id: UUID
    name: str
    display_name: str | None
    description: str | None
    owner_id: str
    status: str
    version: str
    url: str | None
    created_at: datetime
    updated_at: datetime
    links: Links


class Agents(Schema):
    """A page of agents, newest first."""

    agents: list[AgentOut]
    next: UUID | None


class Queued(Schema):
    """What was asked of an agent, and the job that does it."""

    agent_id: UUID
    agent_name: str
    status: Literal["queued", "done"] = "queued"
    links: Links


class QueuedVersion(Queued):
    """A version that will be built and deployed."""

    job_id: UUID
    build_id: UUID
    new_version: str
    previous_version: str | None


class QueuedEnd(Queued):
    """Processes that will be ended, a job for each host; none when nothing ran."""

    job_id: UUID | None
    job_ids: list[UUID]


class Chunk(Schema):
    """A piece of a log."""

    position: str
    attempt: int
    seq: int
    stream: str
    text: str
    created_at: datetime


class LogPage(Schema):
    """Chunks after a position; ask again since `next` until it is finished."""

    chunks: list[Chunk]
    next: str
    finished: bool


class Event(Schema):
    """A fact of the timeline."""

    id: int
    kind: str
    title: str
    attempt: int
    actor: str
    reason: str
    detail: dict[str, Any]
    created_at: datetime


class Timeline(Schema):
    """Events after an id; ask again after `next` until it is finished."""

    events: list[Event]
    next: int
    finished: bool
