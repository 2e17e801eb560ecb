"""What is stored? One concern a file; nothing here saves, locks or notifies."""

from __future__ import annotations

from .actions import JobAction
from .agents import Agent, AgentDeployment, AgentGrant, AgentVersion
from .builds import AgentBuild
from .checkpoints import Checkpoint, JobProgress
from .connectors import McpConnector, McpConnectorBuild, McpConnectorTool
from .jobs import BuildJob
from .logs import LogChunk
from .outbox import Notice
from .overview import Overview
from .runs import JobRun
from .secrets import OwnerSecret
from .sources import Source
from .timeline import JobEvent
from .tokens import ApiToken
from .watches import Proposal, SourceWatch
from .workers import Worker

__all__ = [
    "Agent",
    "AgentBuild",
    "AgentDeployment",
    "AgentGrant",
    "AgentVersion",
    "ApiToken",
    "BuildJob",
    "Checkpoint",
    "JobAction",
    "JobEvent",
    "JobProgress",
    "JobRun",
    "LogChunk",
    "McpConnector",
    "McpConnectorBuild",
    "McpConnectorTool",
    "Notice",
    "Overview",
    "OwnerSecret",
    "Proposal",
    "Source",
    "SourceWatch",
    "Worker",
]
