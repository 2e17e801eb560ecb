"""What do the tests of watches start from? A git server, an agent, a turn of a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import override_settings

from buildqueue.builds import watches
from buildqueue.models import Agent, AgentVersion, BuildJob, Proposal, SourceWatch
from buildqueue.queue import claiming
from buildqueue.queue.outcomes import Actor
from buildqueue.worker import runner
from tests.factories import make_agent, make_build
from tests.support.gitrepository import Repository
from tests.support.gitserver import GitServer, git_server
from tests.support.jobs import fresh
from tests.support.turns import holder

ANNA = Actor(label="anna", id="1")
CHECK = "watch_check"
ASIDE = "checks of this test"  # a queue in which nothing else waits

MakeWatch = Callable[..., SourceWatch]


@pytest.fixture
def server() -> Iterator[GitServer]:
    """Serve git, and have the settings allow it."""
    with git_server() as made, override_settings(BUILDQUEUE=made.settings):
        yield made


@pytest.fixture
def repo(server: GitServer) -> Repository:
    """Serve a repository with one commit."""
    made = server.repository("team/app")
    made.commit({"main.py": "print(1)\n"})
    return made


@pytest.fixture
def agent(committed: None) -> Agent:
    """Have an agent whose version 1.0.0 runs, from a zip."""
    made = make_agent(status="running", name="app")
    AgentVersion.objects.create(
        agent=made, version="1.0.0", is_active=True, status="active"
    )
    return made


@pytest.fixture
def make_watch(server: GitServer, repo: Repository, agent: Agent) -> MakeWatch:
    """Have the agent follow the repository's main branch."""

    def make(**options: Any) -> SourceWatch:
        given: dict[str, Any] = {
            "url": server.url("team/app"),
            "ref": "main",
            "actor": ANNA,
        }
        return watches.create_watch(agent, **(given | options))

    return make


def built_from(agent: Agent, commit: str | None) -> None:
    """Have the agent's newest build be of this commit."""
    make_build(agent, commit_hash=commit)


def look(watch: SourceWatch) -> BuildJob:
    """Look at a watch now, as a worker would; return the ended check."""
    return run(watches.check_now(watch, actor=ANNA))


def claimed(job: BuildJob) -> BuildJob:
    """Claim exactly this job, whatever waits before it."""
    BuildJob.objects.filter(pk=job.pk).update(queue=ASIDE)
    [taken] = claiming.claim(claiming.Scope(queues=(ASIDE,)), holder())
    return taken


def run(job: BuildJob) -> BuildJob:
    """Run exactly this job and return it as it is then."""
    runner.run(claimed(job))
    return fresh(job)


def now_is(watch: SourceWatch) -> SourceWatch:
    """Return the watch as it is stored now."""
    return SourceWatch.objects.get(pk=watch.pk)


def updates(agent: Agent) -> list[BuildJob]:
    """Return the updates that the agent was given, in order."""
    return list(
        BuildJob.objects.filter(agent_id=agent.pk, kind="update").order_by("seq")
    )


def checks() -> list[BuildJob]:
    """Return the checks that were asked for, in order."""
    return list(BuildJob.objects.filter(kind=CHECK).order_by("seq"))


def proposed(watch: SourceWatch) -> list[tuple[str, str]]:
    """Return commit and status of what the watch has proposed, in order."""
    rows = Proposal.objects.filter(watch=watch).order_by("created_at")
    return list(rows.values_list("commit_hash", "status"))
