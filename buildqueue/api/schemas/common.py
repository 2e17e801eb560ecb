"""What do several answers have? Links, a fault, and the job that does what was asked."""

from __future__ import annotations

from typing import Literal, TypeAlias
from uuid import UUID

from ninja import Schema

Links: TypeAlias = dict[str, str]


class Fault(Schema):
    """Why it failed."""

    code: str
    message: str


class Queued(Schema):
    """What was asked for, and the job that does it."""

    status: Literal["queued", "done"] = "queued"
    links: Links


class QueuedOfAgent(Queued):
    """What was asked of an agent."""

    agent_id: UUID
    agent_name: str


class QueuedVersion(QueuedOfAgent):
    """A version that will be built, or deployed, or both."""

    job_id: UUID
    build_id: UUID
    new_version: str
    previous_version: str | None


class QueuedJobs(QueuedOfAgent):
    """Jobs, one for each host that they need; none when there was nothing to do."""

    job_id: UUID | None
    job_ids: list[UUID]


class QueuedOfConnector(Queued):
    """What was asked of a connector; no job when there was nothing to do."""

    connector_id: UUID
    connector_name: str
    job_id: UUID | None
    job_ids: list[UUID]


class QueuedConnectorBuild(QueuedOfConnector):
    """A build of a connector."""

    build_id: UUID
    version: str


class QueuedCheck(Queued):
    """A look at a followed branch or tag."""

    job_id: UUID
    watch_id: UUID
    agent_id: UUID
