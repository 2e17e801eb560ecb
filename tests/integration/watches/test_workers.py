"""Does a real worker, with its own duties, do all that is promised of a watch?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.utils import timezone

from buildqueue.builds import hosts, secrets
from buildqueue.models import Agent, AgentDeployment, Proposal, SourceWatch, Worker
from tests.support.gitrepository import Repository
from tests.support.gitserver import GitServer
from tests.support.processes import Workers
from tests.support.waiting import wait_until

from .conftest import MakeWatch, built_from, now_is, updates

TOKEN = "ghp-planted-for-the-worker"
DUTIES = [
    "buildqueue.executors.watching.enqueue_due_checks",
    "buildqueue.executors.watching.repair_accepted",
]


@pytest.fixture
def workers(committed: None, tmp_path: Path) -> Iterator[Workers]:
    """Start real workers; at the end they are killed, and nothing may be left."""
    made = Workers(tmp_path)
    try:
        yield made
    finally:
        made.end()


def test_a_worker_proposes_a_new_commit_and_does_what_is_accepted(
    workers: Workers,
    make_watch: MakeWatch,
    server: GitServer,
    repo: Repository,
    agent: Agent,
) -> None:
    built_from(agent, repo.head())
    server.require_token(TOKEN)
    secrets.set_secret("1", "GIT_TOKEN", TOKEN)
    watch = make_watch(secret="GIT_TOKEN")
    # The agent lives on another host that is there: its update is not built here.
    Worker.objects.create(
        host="elsewhere", pid=1, slots=1, capabilities=[hosts.capability("elsewhere")]
    )
    AgentDeployment.objects.create(
        agent=agent, build=agent.builds.get(), status="running", host="elsewhere"
    )
    workers.start(
        duties=DUTIES,
        git_protocols=list(server.settings["GIT_PROTOCOLS"]),
        git_hosts=list(server.settings["GIT_HOSTS"]),
    )
    wait_until(
        lambda: now_is(watch).last_commit, message=lambda: now_is(watch).last_error
    )
    commit = repo.commit({"main.py": "print(2)\n"})
    SourceWatch.objects.update(due_at=timezone.now())
    wait_until(lambda: Proposal.objects.filter(commit_hash=commit).exists())
    Proposal.objects.update(
        status="accepted", decided_by="carl", decided_at=timezone.now()
    )
    wait_until(lambda: Proposal.objects.get().job_id)

    [job] = updates(agent)
    assert Proposal.objects.get().job_id == job.pk
    assert (job.status, job.payload["source"]["commit"]) == ("pending", commit)
    assert TOKEN not in workers.started[0].output()
