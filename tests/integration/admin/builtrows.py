"""How does a test of the control room get the rows of the build system?"""

from __future__ import annotations

import uuid
from typing import Any

from buildqueue.builds import secrets
from buildqueue.models import (
    Agent,
    AgentDeployment,
    AgentVersion,
    McpConnectorTool,
    OwnerSecret,
    Proposal,
    Source,
    SourceWatch,
)
from tests.factories import make_agent, make_build, make_connector

CIPHERTEXT = "gAAAAABciphertext"  # what no page may show


def make_version(agent: Agent, version: str = "1.0.0", **values: Any) -> AgentVersion:
    """Make a version: archived, to be gone back to, unless told otherwise."""
    values.setdefault("status", "archived")
    values.setdefault("can_rollback", values["status"] == "archived")
    values.setdefault("image_tag", f"local:{agent.pk}/{version}")
    return AgentVersion.objects.create(agent=agent, version=version, **values)


def make_active(agent: Agent | None = None, version: str = "2.0.0") -> Agent:
    """Make an agent with an active version."""
    found = agent or make_agent()
    make_version(found, version, status="active", is_active=True)
    return found


def make_deployment(agent: Agent, **values: Any) -> AgentDeployment:
    """Make a deployment of a build of the agent."""
    values.setdefault("build", make_build(agent))
    return AgentDeployment.objects.create(agent=agent, **values)


def make_watch(agent: Agent | None = None, **values: Any) -> SourceWatch:
    """Make a watch, an active one unless told otherwise."""
    values.setdefault("git_url", "https://github.com/acme/search.git")
    values.setdefault("ref", f"branch-{uuid.uuid4().hex[:6]}")
    watch = SourceWatch.objects.create(agent=agent or make_agent(), **values)
    watch.refresh_from_db()
    return watch


def make_proposal(watch: SourceWatch | None = None, **values: Any) -> Proposal:
    """Make a proposal, an open one unless told otherwise."""
    of = watch or make_watch()
    values.setdefault("commit_hash", uuid.uuid4().hex + "0" * 8)
    proposal = Proposal.objects.create(watch=of, agent_id=of.agent_id, **values)
    proposal.refresh_from_db()
    return proposal


def make_secret(owner: str = "1", name: str = "TOKEN", value: str = "v") -> OwnerSecret:
    """Leave a secret of an owner."""
    secrets.set_secret(owner, name, value)
    return OwnerSecret.objects.get(owner_id=owner, name=name)


def make_source(**values: Any) -> Source:
    """Make the row of a stored source."""
    sha = uuid.uuid4().hex * 2
    values.setdefault("size", 48_211)
    values.setdefault("key", f"sources/{sha[:2]}/{sha}.zip")
    return Source.objects.create(sha256=sha, **values)


def make_tool(connector: Any = None, **values: Any) -> McpConnectorTool:
    """Make a tool of a connector."""
    values.setdefault("name", "search")
    of = connector or make_connector()
    return McpConnectorTool.objects.create(connector=of, **values)
