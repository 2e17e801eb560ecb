"""What does a build job carry? One frozen model a kind, told apart by `kind`.

Both spellings of a kind are taken, ours and nasiko's, with nasiko's fields; a field
that came later has a default, so old rows parse. Ours hold ids, references and choices
only: no secret and no environment.

    parts        sources, specs, names
    agents       the six kinds of agents
    connectors   the one of connectors, and what is asked of those that run
    acts         what changes what runs, and builds nothing
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias
from uuid import UUID

from pydantic import Field, TypeAdapter

from .acts import AgentDelete, AgentScale, AgentStart, AgentStop, InstanceEnd
from .agents import (
    Clone,
    GithubClone,
    Payload,
    Rollback,
    StandaloneBuild,
    Update,
    Upload,
)
from .connectors import (
    ConnectorDelete,
    ConnectorEnd,
    ConnectorRefresh,
    McpServerUpload,
)
from .parts import NO_SPEC, GitSource, Source, SourceFile, SourceKey, Spec, StoredSource

__all__ = [
    "NO_SPEC",
    "AgentDelete",
    "AgentScale",
    "AgentStart",
    "AgentStop",
    "BuildPayload",
    "Clone",
    "ConnectorDelete",
    "ConnectorEnd",
    "ConnectorRefresh",
    "GitSource",
    "GithubClone",
    "InstanceEnd",
    "McpServerUpload",
    "Payload",
    "Rollback",
    "Source",
    "SourceFile",
    "SourceKey",
    "Spec",
    "StandaloneBuild",
    "StoredSource",
    "Update",
    "Upload",
    "build_id_of",
    "dump",
    "parse",
]

BuildPayload: TypeAlias = (
    Upload | Update | Rollback | Clone | GithubClone | StandaloneBuild | McpServerUpload
)
_ADAPTER: TypeAdapter[BuildPayload] = TypeAdapter(
    Annotated[BuildPayload, Field(discriminator="kind")]
)


def parse(payload: object) -> BuildPayload:
    """Return the payload as its kind's model; pydantic's ValidationError tells faults."""
    return _ADAPTER.validate_python(payload)


def dump(payload: Payload) -> dict[str, Any]:
    """Return the JSON that `parse` takes again, without what says nothing."""
    made = payload.model_dump(mode="json", exclude_defaults=True)
    return {"kind": getattr(payload, "kind", ""), "version": 1, **made}


def build_id_of(payload: object) -> UUID | None:
    """Return the build's id even of a payload that does not parse, if one is there."""
    if not isinstance(payload, Mapping):
        return None
    for name in ("build_id", "rollback_build_id"):
        try:
            return UUID(str(payload[name]))
        except (KeyError, ValueError):
            continue
    return None
