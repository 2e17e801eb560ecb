"""How does a row become an answer? Without payloads, secrets or tracebacks."""

from __future__ import annotations

from .agents import agent_of, deployment_of, grants_of, version_of
from .builds import build_of, connector_build_of
from .common import address, job_links
from .connectors import connector_of, connector_with_tools_of
from .jobs import action_of, chunk_of, event_of, job_of, steps_of
from .watches import proposal_of, watch_of

__all__ = [
    "action_of",
    "address",
    "agent_of",
    "build_of",
    "chunk_of",
    "connector_build_of",
    "connector_of",
    "connector_with_tools_of",
    "deployment_of",
    "event_of",
    "grants_of",
    "job_links",
    "job_of",
    "proposal_of",
    "steps_of",
    "version_of",
    "watch_of",
]
