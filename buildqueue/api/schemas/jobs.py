"""How does a job answer? Itself, its question, actions, log and timeline."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema

from .common import Fault, Links


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


class Chunk(Schema):
    """A piece of a log."""

    position: str
    attempt: int
    seq: int
    stream: str
    step: str | None  # which printed it; None: what was printed before the first
    text: str
    created_at: datetime


class LogPage(Schema):
    """Chunks after a position; ask again since `next` until it is finished."""

    chunks: list[Chunk]
    next: str
    finished: bool
    look_again_ms: int | None = None  # to follow it closely; None: it is finished


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
