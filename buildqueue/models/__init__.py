"""What is stored? One concern a file; nothing here saves, locks or notifies."""

from __future__ import annotations

from .actions import JobAction
from .agents import Agent, AgentDeployment, AgentVersion
from .builds import AgentBuild
from .checkpoints import Checkpoint, JobProgress
from .connectors import McpConnector, McpConnectorBuild
from .jobs import BuildJob
from .logs import LogChunk
from .outbox import Notice
from .overview import Overview
from .runs import JobRun
from .timeline import JobEvent
from .tokens import ApiToken
from .workers import Worker

__all__ = [
    "Agent",
    "AgentBuild",
    "AgentDeployment",
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
    "Notice",
    "Overview",
    "Worker",
]
