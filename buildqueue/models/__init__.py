"""What is stored? One concern a file; nothing here saves, locks or notifies."""

from __future__ import annotations

from .agents import Agent, AgentDeployment, AgentVersion
from .builds import AgentBuild
from .connectors import McpConnector, McpConnectorBuild
from .jobs import BuildJob
from .logs import LogChunk
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
    "JobEvent",
    "JobRun",
    "LogChunk",
    "McpConnector",
    "McpConnectorBuild",
    "Overview",
    "Worker",
]
