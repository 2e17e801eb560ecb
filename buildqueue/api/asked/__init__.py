"""What may each request bring? The fields of every body, and what the schema tells.

Only their types are checked here; whether a wish can be fulfilled, the domain says.
"""

from __future__ import annotations

from typing import Any

from ..reading import JSON, Body
from ..receiving import MULTIPART
from .building import Build, Clone, Deploy, GithubClone, Rollback, Update, Upload
from .changing import Grant, Nothing, Scale, Secret, Watch, check_one
from .connectors import ConnectorClone, ConnectorUpload
from .fields import MAX_REASON

__all__ = [
    "MAX_REASON",
    "Build",
    "Clone",
    "ConnectorClone",
    "ConnectorUpload",
    "Deploy",
    "GithubClone",
    "Grant",
    "Nothing",
    "Rollback",
    "Scale",
    "Secret",
    "Update",
    "Upload",
    "Watch",
    "check_one",
    "told",
]


def told(kind: type[Body], *media: str) -> dict[str, Any]:
    """Return how the schema tells a body: its fields, under each content type."""
    schema = kind.model_json_schema()
    plain = {k: v for k, v in schema["properties"].items() if k != "source"}
    content = {
        each: {
            "schema": schema if each == MULTIPART else schema | {"properties": plain}
        }
        for each in media or (JSON,)
    }
    needed = bool(schema.get("required"))
    return {"requestBody": {"required": needed, "content": content}}
