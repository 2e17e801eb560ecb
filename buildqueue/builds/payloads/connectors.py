"""What do the jobs of a connector carry: the one that builds its server, and small ones?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from uuid import UUID

from pydantic import model_validator

from .agents import Payload
from .parts import Environment, OwnerId, Source


class McpServerUpload(Payload):
    """Build and run the server of an MCP connector."""

    kind: Literal["mcp_server_upload", "McpServerUpload"] = "mcp_server_upload"
    build_id: UUID
    connector_id: UUID
    owner_id: OwnerId  # the caller
    name: str
    version_tag: str = ""
    source: Source
    env: Environment = {}  # of nasiko's rows alone: name to ciphertext

    @property
    def label(self) -> str:
        """Return the name that people know it by."""
        return self.name

    @model_validator(mode="before")
    @classmethod
    def _from_nasiko(cls, given: Any) -> Any:
        """Turn `{"Zip": {"zip_path": ...}}` and `{"Github": {"url": ...}}` into ours."""
        if not isinstance(given, Mapping):
            return given
        fields = {**given}
        image = str(fields.pop("image_tag", ""))
        fields.setdefault("version_tag", image.rpartition(":")[2])
        match fields.get("source"):
            case {"Zip": inner, **rest} | {"Github": inner, **rest} if not rest:
                fields["source"] = inner
        return fields


class ConnectorRefresh(Payload):
    """Ask a running connector for its tools again."""

    kind: Literal["connector_refresh"] = "connector_refresh"
    connector_id: UUID


class ConnectorEnd(Payload):
    """End the instances of a connector that are not its server."""

    kind: Literal["connector_end"] = "connector_end"
    connector_id: UUID


class ConnectorDelete(Payload):
    """End a connector's processes for ever, and remove what was built for it."""

    kind: Literal["connector_delete"] = "connector_delete"
    connector_id: UUID
