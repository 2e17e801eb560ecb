"""What do the jobs carry that change what runs, and build nothing?"""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from .agents import Payload
from .parts import MOST_REPLICAS


class AgentStart(Payload):
    """Run the agent's active version in a new instance, beside what runs."""

    kind: Literal["agent_start"] = "agent_start"
    agent_id: UUID


class AgentScale(Payload):
    """Run so many copies of the agent's running version."""

    kind: Literal["agent_scale"] = "agent_scale"
    agent_id: UUID
    replicas: Annotated[int, Field(ge=1, le=MOST_REPLICAS)]


class AgentStop(Payload):
    """End an agent's processes; its address stays."""

    kind: Literal["agent_stop"] = "agent_stop"
    agent_id: UUID


class AgentDelete(Payload):
    """End an agent's processes for ever, and remove what was built for it."""

    kind: Literal["agent_delete"] = "agent_delete"
    agent_id: UUID


class InstanceEnd(Payload):
    """End one instance that was started and never promoted."""

    kind: Literal["instance_end"] = "instance_end"
    agent_id: UUID
    instance_id: UUID
