"""What may a caller see and do? Owners their own; others what grants and permissions say.

An object of somebody else does not exist for who may not see it: the same 404 as for an
id that was never given. Who sees it but may not change it is told so (403).
"""

from __future__ import annotations

from .agents import (
    HIDDEN,
    Sight,
    agent,
    agent_to_change,
    agent_to_manage,
    agent_with_history,
    agents,
    build,
    build_to_read_log,
    builds,
    check_secrets,
    own_agent,
    shared_agents,
    sight,
)
from .connectors import (
    connector,
    connector_to_change,
    connectors,
    proposal_to_decide,
    watch_to_change,
)
from .jobs import (
    UNSHOWN,
    action_to_decide,
    actions,
    job,
    job_to_change,
    job_to_read_log,
)

__all__ = [
    "HIDDEN",
    "UNSHOWN",
    "Sight",
    "action_to_decide",
    "actions",
    "agent",
    "agent_to_change",
    "agent_to_manage",
    "agent_with_history",
    "agents",
    "build",
    "build_to_read_log",
    "builds",
    "check_secrets",
    "connector",
    "connector_to_change",
    "connectors",
    "job",
    "job_to_change",
    "job_to_read_log",
    "own_agent",
    "proposal_to_decide",
    "shared_agents",
    "sight",
    "watch_to_change",
]
