"""Can branches be followed, and what was found be decided on, from a shell?"""

from __future__ import annotations

import pytest
from django.contrib.auth.models import AbstractUser

from buildqueue.builds import secrets
from buildqueue.models import Agent, BuildJob, Proposal, SourceWatch
from tests.factories import make_agent
from tests.support.commands import answered, refusal, run

from .conftest import Typing

COMMIT = "c" * 40
GIT = ("--git", "https://github.com/team/app", "--ref", "main")


@pytest.fixture
def echo(anna: AbstractUser) -> Agent:
    return make_agent(str(anna.pk), name="echo", status="running")


@pytest.fixture
def watch(echo: Agent) -> SourceWatch:
    return SourceWatch.objects.create(
        agent=echo, git_url="https://github.com/team/app", ref="main"
    )


@pytest.fixture
def proposal(watch: SourceWatch) -> Proposal:
    return Proposal.objects.create(
        watch=watch, agent=watch.agent, commit_hash=COMMIT, summary="main at c"
    )


def status(watch: SourceWatch) -> str:
    return SourceWatch.objects.get(pk=watch.pk).status


def test_an_agent_is_made_to_follow_a_branch(echo: Agent) -> None:
    secrets.set_secret(echo.owner_id, "forge", "xyzzy-plugh")

    told = answered(
        *("watch", "add", "echo", *GIT, "--mode", "update", "--bump", "minor"),
        *("--every", "30", "--secret", "forge"),
    )

    made = SourceWatch.objects.get()
    assert told["id"] == str(made.pk)
    assert (made.ref, made.mode, made.bump) == ("main", "update", "minor")
    assert (made.interval_minutes, made.secret_name) == (30, "forge")
    assert "already" in str(refusal("watch", "add", "echo", *GIT))
    assert "--mode" in str(refusal("watch", "add", "echo", *GIT, "--mode", "guess"))


def test_watches_are_listed(watch: SourceWatch) -> None:
    make_agent(watch.agent.owner_id, name="other")

    assert [each["id"] for each in answered("watch", "list")["watches"]] == [
        str(watch.pk)
    ]
    assert answered("watch", "list", "other")["watches"] == []
    assert f"{watch.pk}  echo   active  propose" in run("watch", "list", "echo")


def test_a_watch_is_paused_and_resumed(watch: SourceWatch) -> None:
    short = str(watch.pk)[:8]

    assert run("watch", "pause", short, "--reason", "freeze") == (
        f"{watch.pk} is paused\n"
    )
    assert "freeze" in (SourceWatch.objects.get().pause_reason or "")
    assert "resume it first" in str(refusal("watch", "check", short))
    assert answered("watch", "resume", short)["status"] == "active"
    assert status(watch) == "active"


def test_a_watch_is_looked_at_now(watch: SourceWatch) -> None:
    told = answered("watch", "check", str(watch.pk))

    job = BuildJob.objects.get()
    assert (told["job_id"], told["watch_id"]) == (str(job.pk), str(watch.pk))
    assert job.kind == "watch_check"


def test_a_watch_is_forgotten_when_that_is_meant(
    watch: SourceWatch, proposal: Proposal, piped: Typing
) -> None:
    assert refusal("watch", "remove", str(watch.pk)).returncode == 2
    assert SourceWatch.objects.exists()

    told = answered("watch", "remove", str(watch.pk), "--yes")

    assert told["watch_id"] == str(watch.pk)
    assert not SourceWatch.objects.exists()
    assert not Proposal.objects.exists()


def test_open_proposals_are_listed(proposal: Proposal) -> None:
    [told] = answered("proposal", "list", "echo")["proposals"]

    assert (told["id"], told["commit"]) == (str(proposal.pk), COMMIT)
    assert COMMIT[:12] in run("proposal", "list")
    assert answered("proposal", "list", "--status", "dismissed")["proposals"] == []


def test_a_proposal_is_accepted_once(proposal: Proposal) -> None:
    first = answered("proposal", "accept", str(proposal.pk)[:8])
    again = answered("proposal", "accept", str(proposal.pk))

    job = BuildJob.objects.get()
    assert first["job_id"] == again["job_id"] == str(job.pk)
    assert job.kind == "update"
    assert "is accepted" in str(refusal("proposal", "dismiss", str(proposal.pk)))


def test_a_proposal_is_dismissed(proposal: Proposal) -> None:
    assert run("proposal", "dismiss", str(proposal.pk)) == (
        f"{proposal.pk} is dismissed\n"
    )
    assert not BuildJob.objects.exists()
    assert "is dismissed" in str(refusal("proposal", "accept", str(proposal.pk)))
