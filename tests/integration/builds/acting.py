"""How do the domain's tests ask for builds, and what do they look at afterwards?"""

from __future__ import annotations

from typing import Any

from buildqueue.builds import submission
from buildqueue.builds.submission import Submission
from buildqueue.models import Agent, AgentDeployment, AgentVersion
from tests.support.zips import zipped

from .conftest import ANNA


def update(agent: Agent, *, program: str = "# next\n", **options: Any) -> Submission:
    """Submit a new version of an agent."""
    options.setdefault("caller", ANNA)
    if "git" not in options:
        options.setdefault("source", zipped({"main.py": program}))
    return submission.submit_update(agent, **options)


def rollback(agent: Agent, version: str | None = None, **options: Any) -> Submission:
    """Submit a rollback of an agent."""
    options.setdefault("caller", ANNA)
    return submission.submit_rollback(agent, version=version, **options)


def standalone(
    agent: Agent, *, program: str = "# apart\n", **options: Any
) -> Submission:
    """Submit a build of an agent that is not deployed."""
    options.setdefault("caller", ANNA)
    options.setdefault("source", zipped({"main.py": program}))
    return submission.submit_build(agent, **options)


def fresh(agent: Agent) -> Agent:
    """Return the agent as it is now."""
    return Agent.objects.get(pk=agent.pk)


def versions_of(agent: Agent) -> dict[str, str]:
    """Return version to status."""
    rows = AgentVersion.objects.filter(agent=agent)
    return dict(rows.values_list("version", "status"))


def running_of(agent: Agent) -> AgentDeployment:
    """Return the one running deployment."""
    return AgentDeployment.objects.get(agent=agent, status="running")
