"""How does what is followed answer? Watches, and what they have proposed."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from ninja import Schema

from .common import Links


class Watch(Schema):
    """A branch or tag that an agent follows."""

    id: UUID
    agent_id: UUID
    url: str
    ref: str
    secret: str | None  # the name of the owner's secret
    mode: str
    bump: str
    interval_minutes: int
    status: str
    pause_reason: str | None
    failures: int
    last_error: str | None
    last_commit: str | None
    checked_at: datetime | None
    due_at: datetime
    created_by: str
    created_at: datetime
    links: Links


class Watches(Schema):
    """What an agent follows, oldest first."""

    watches: list[Watch]


class ProposalOut(Schema):
    """An update that a watch has found."""

    id: UUID
    watch_id: UUID
    agent_id: UUID
    commit: str
    summary: str
    status: str
    job_id: UUID | None
    decided_by: str | None
    decided_at: datetime | None
    created_at: datetime
    links: Links


class Proposals(Schema):
    """A page of proposals, newest first."""

    proposals: list[ProposalOut]
    next: UUID | None
