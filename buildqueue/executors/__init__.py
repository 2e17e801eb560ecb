"""Which kinds does buildqueue bring? One file a kind; importing registers it.

Kinds without a handler here, and payloads that do not parse, still end their target:
the fallback hooks are the lifecycle's. Backends are imported when a job runs, so that
a process that only enqueues needs none of their libraries.
"""

from __future__ import annotations

from ..builds import lifecycle
from ..queue import handlers
from . import agent_delete, agent_stop, instance_end, upload

__all__ = ["agent_delete", "agent_stop", "instance_end", "upload"]

handlers.register_fallback(on_final=lifecycle.on_final, on_reopen=lifecycle.on_reopen)
