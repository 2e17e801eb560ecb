"""How does a build answer? Of an agent, or of a connector."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from ninja import Schema

from .common import Fault, Links


class BuildSource(Schema):
    """Where a build comes from; a repository's address is told without credentials."""

    type: Literal["git", "archive", "version"]
    url: str | None = None
    ref: str | None = None
    commit: str | None = None
    sha256: str | None = None
    size: int | None = None


class AnyBuild(Schema):
    """What every build tells."""

    id: UUID
    version: str
    status: str
    phase: str | None
    source: BuildSource
    error: Fault | None
    hint: str | None
    exit_code: int | None
    logs: str | None  # the last lines; None in lists, and for who may not read logs
    triggered_by: str | None
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    job_id: UUID | None
    links: Links


class Build(AnyBuild):
    """A build of an agent, as it is now."""

    agent_id: UUID
    agent_name: str
    commit_hash: str | None
    source_sha256: str | None


class Builds(Schema):
    """A page of builds, newest first."""

    builds: list[Build]
    next: UUID | None


class ConnectorBuild(AnyBuild):
    """A build of a connector, as it is now."""

    connector_id: UUID
    detected_runtime: str | None


class ConnectorBuilds(Schema):
    """A page of a connector's builds, newest first."""

    builds: list[ConnectorBuild]
    next: UUID | None
