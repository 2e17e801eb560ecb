"""How does an agent answer? Itself, its versions, deployments, environment and grants."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema

from .common import Links


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
    capabilities: Any
    skills: Any
    tags: list[str]
    ports: list[int]  # asked for; none: as its source says
    replicas: int
    resources: dict[str, Any]
    writable: bool
    writable_path: str | None
    is_public: bool
    created_at: datetime
    updated_at: datetime
    links: Links


class Agents(Schema):
    """A page of agents, newest first."""

    agents: list[AgentOut]
    next: UUID | None


class Version(Schema):
    """A version of an agent."""

    id: UUID
    version: str
    status: str
    is_active: bool
    can_rollback: bool
    previous_version: str | None
    changelog: str | None
    build_id: UUID | None
    created_at: datetime
    links: Links


class NextVersions(Schema):
    """What the next version would be, by the step that is asked for."""

    patch: str
    minor: str
    major: str


class Versions(Schema):
    """A page of versions, newest first, and what the next one would be."""

    versions: list[Version]
    next: NextVersions
    next_page: UUID | None


class Deployment(Schema):
    """A deployment of a version; of its environment the names alone."""

    id: UUID
    build_id: UUID
    version: str
    status: str
    url: str | None
    ports: list[int]
    replicas: int
    env: list[str] | None  # None: for the owner alone
    resources: dict[str, Any]
    writable: bool
    writable_path: str | None
    runtime: str
    restart_count: int
    crash_reason: str | None
    crashed_at: datetime | None
    last_logs: str | None
    created_at: datetime
    updated_at: datetime | None
    links: Links


class Deployments(Schema):
    """A page of deployments, newest first."""

    deployments: list[Deployment]
    next: UUID | None


class Environment(Schema):
    """The names of an agent's environment; values are never told."""

    env: list[str]


class Grant(Schema):
    """An agent opened to somebody besides its owner."""

    type: str
    grantee_id: str
    user: str | None  # None: everybody, or a user that is gone
    can_manage: bool
    created_at: datetime


class Grants(Schema):
    """To whom an agent is opened, oldest first."""

    grants: list[Grant]
