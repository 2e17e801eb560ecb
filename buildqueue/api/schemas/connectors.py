"""How does an MCP connector answer? Itself, and the tools that it offers."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema

from .common import Links


class Tool(Schema):
    """A tool, as the connector's server told it last."""

    name: str
    title: str | None
    description: str | None
    input_schema: dict[str, Any]
    seen_at: datetime


class Connector(Schema):
    """A connector, as it is now; `status` is null for one that is not built here."""

    id: UUID
    name: str
    display_name: str | None
    description: str | None
    owner_id: str | None
    source_kind: str
    status: str | None
    url: str | None
    is_active: bool
    env: list[str]  # names alone
    restart_count: int
    crash_reason: str | None
    crashed_at: datetime | None
    last_logs: str | None
    created_at: datetime
    updated_at: datetime
    links: Links


class ConnectorWithTools(Connector):
    """A connector with its tools."""

    tools: list[Tool]


class Connectors(Schema):
    """A page of connectors, newest first."""

    connectors: list[Connector]
    next: UUID | None
