"""What was left behind, as plain values: rows, receipts, faults. No database, no engine.

`committed` is when the row's transaction committed, by the server: what orders two
writes whatever their writers' clocks say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as it is at the end."""

    id: UUID
    kind: str
    status: str
    expected: frozenset[str] = frozenset()  # its effects in the database, when done
    parent: UUID | None = None
    attempt: int = 1
    failures: int = 0
    crashes: int = 0
    max_attempts: int = 3
    due_at: datetime | None = None
    completed_at: datetime | None = None
    error_code: str | None = None
    waits_for: str = ""  # input, approval, children
    left_open: bool = False  # its question is to stay unanswered


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """An attempt; `id` is its lease."""

    id: UUID
    job: UUID
    attempt: int
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None = None
    serial_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A line of a timeline."""

    id: int
    job: UUID
    kind: str
    at: datetime
    committed: datetime
    title: str = ""
    run: UUID | None = None
    action: str = ""  # the id of the action that it is about


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """What a run wrote under its lease: an effect, or a checkpoint."""

    job: UUID
    name: str
    lease: UUID | None
    attempt: int
    committed: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An effect outside, as its row has it."""

    id: UUID
    job: UUID
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A run that a fault has hit."""

    job: UUID
    lease: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault, and whom it hit."""

    name: str
    at: datetime
    target: str
    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All of it."""

    now: datetime
    jobs: Mapping[UUID, Job] = field(default_factory=dict)
    acknowledged: tuple[UUID, ...] = ()  # whose enqueue has returned
    runs: tuple[Run, ...] = ()
    events: tuple[Event, ...] = ()  # in order of their ids
    effects: tuple[Write, ...] = ()
    checkpoints: tuple[Write, ...] = ()
    actions: tuple[Action, ...] = ()
    outside: Mapping[str, int] = field(default_factory=dict)  # action -> how often
    processes: tuple[str, ...] = ()  # that outlived their supervisor
    strange_ends: tuple[str, ...] = ()  # of supervisors
    faults: tuple[Fault, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)  # told, not checked


def by_job(rows: Any) -> dict[UUID, list[Any]]:
    """Return rows by their job, in their order."""
    found: dict[UUID, list[Any]] = defaultdict(list)
    for row in rows:
        found[row.job].append(row)
    return found
