"""How do a connector and its tools become answers? Without headers and credentials."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...models import McpConnector, McpConnectorTool
from .. import schemas
from .common import address, names_of, plain_url, shown_object


def connector_of(row: McpConnector, *, logs: bool) -> schemas.Connector:
    """Return a connector's answer."""
    return schemas.Connector(**_fields(row, logs=logs))


def connector_with_tools_of(
    row: McpConnector, tools: Iterable[McpConnectorTool], *, logs: bool
) -> schemas.ConnectorWithTools:
    """Return a connector's answer with its tools."""
    shown = [
        schemas.Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema=shown_object(tool.input_schema),
            seen_at=tool.seen_at,
        )
        for tool in tools
    ]
    return schemas.ConnectorWithTools(**_fields(row, logs=logs), tools=shown)


def _fields(row: McpConnector, *, logs: bool) -> dict[str, Any]:
    own = address("connector", row.pk)
    return {
        "id": row.pk,
        "name": row.name,
        "display_name": row.display_name,
        "description": row.description,
        "owner_id": row.owner_id,
        "source_kind": row.source_kind,
        "status": row.build_status,
        "url": plain_url(row.url),
        "is_active": row.is_active,
        "env": names_of(row.build_secrets_env),
        "restart_count": row.restart_count,
        "crash_reason": row.crash_reason,
        "crashed_at": row.crashed_at,
        "last_logs": row.last_logs if logs else None,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "links": {
            "self": own,
            "builds": f"{own}/builds",
            "refresh": f"{own}/refresh",
        },
    }
