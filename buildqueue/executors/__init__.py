"""Which kinds does buildqueue bring? One file a kind; importing registers it.

Shared: `base` a run and its phases, `gathering` the source, `building` the artifact,
`deploying` the way behind an address, `instances` what an agent's instance is like,
`agents` all of it for the kinds that give an agent a version.

Kinds without a handler here, and payloads that do not parse, still end their target:
the fallback hooks are the lifecycle's. Backends are imported when a job runs, so that
a process that only enqueues needs none of their libraries.
"""

from __future__ import annotations

from ..builds import lifecycle
from ..queue import handlers
from . import (
    agent_delete,
    agent_scale,
    agent_start,
    agent_stop,
    clone,
    connector_delete,
    connector_end,
    connector_refresh,
    github_clone,
    instance_end,
    mcp_server_upload,
    rollback,
    standalone_build,
    update,
    upload,
    watch_check,
)

__all__ = [
    "agent_delete",
    "agent_scale",
    "agent_start",
    "agent_stop",
    "clone",
    "connector_delete",
    "connector_end",
    "connector_refresh",
    "github_clone",
    "instance_end",
    "mcp_server_upload",
    "rollback",
    "standalone_build",
    "update",
    "upload",
    "watch_check",
]

handlers.register_fallback(on_final=lifecycle.on_final, on_reopen=lifecycle.on_reopen)
