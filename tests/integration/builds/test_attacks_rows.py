"""Do odd requests, odd rows of another system and lost hosts end as they should?"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from buildqueue.backends.base import BuildRequest, BuiltArtifact, LineCallback
from buildqueue.builds import (
    grants,
    hosts,
    registration,
    retirement,
    running,
    settings_of,
    submission,
    versions,
)
from buildqueue.exceptions import Refused
from buildqueue.executors import cleaning, host
from buildqueue.models import Agent, AgentBuild, BuildJob, Worker
from buildqueue.queue import verbs
from buildqueue.queue.outcomes import Actor
from tests.support.fakes import FakeBuilder

from .acting import rollback, running_of, update
from .conftest import ANNA, World, agent_of, job_of, upload

LONG = "o" * 101
ODD = ["a\0b", "a\ud800b", LONG]
REPOSITORY = "https://github.com/team/echo"


@pytest.mark.parametrize("odd", ODD, ids=["nul", "surrogate", "long"])
def test_people_whom_no_row_could_name_are_refused(world: World, odd: str) -> None:
    made = upload()

    for ask in (
        lambda: upload("other", owner=odd),
        lambda: upload("other", caller=Actor(label="x", id=odd)),
        lambda: registration.register_agent(owner_id=odd, name="other"),
        lambda: grants.open_to_user(made.agent, odd, actor=ANNA),
    ):
        with pytest.raises(Refused):
            ask()
    assert list(Agent.objects.values_list("name", flat=True)) == ["echo"]


def test_a_branch_or_version_that_no_row_could_name_is_refused(world: World) -> None:
    made = upload()

    git = submission.GitRequest(url=REPOSITORY, ref="a\ud800")

    with pytest.raises(Refused) as refused:
        submission.submit_update(made.agent, caller=ANNA, git=git)
    assert refused.value.code == "git_ref_invalid"

    with pytest.raises(Refused) as refused:
        versions.delete_version(made.agent, "1\0")
    assert refused.value.code == "version_not_found"


def test_waiting_builds_count_for_the_size_of_the_environment(world: World) -> None:
    first = upload(env={f"A{number}": "v" for number in range(60)})
    more = {f"B{number}": "v" for number in range(60)}

    with pytest.raises(Refused):
        update(first.agent, env=more)
    with pytest.raises(Refused):
        settings_of.set_env(agent_of(first), more, actor=ANNA)

    verbs.cancel(first.job.pk, actor=ANNA)
    settings_of.set_env(agent_of(first), more, actor=ANNA)
    with pytest.raises(Refused):
        verbs.retry(first.job.pk, actor=ANNA)
    assert job_of(first).status == "cancelled"


def _legacy(kind: str, **fields: Any) -> tuple[BuildJob, AgentBuild]:
    """Insert an agent, a build and a job as another system does."""
    agent = Agent.objects.create(owner_id="1", name="old", status="deploying")
    build = AgentBuild.objects.create(agent=agent, version_tag="1.0.0")
    ids = {"agent_id": str(agent.pk), "agent_owner_id": "1"}
    name = "rollback_build_id" if kind == "Rollback" else "build_id"
    payload = {"kind": kind, name: str(build.pk), **ids, **fields}
    job = BuildJob(payload=payload, agent_id=agent.pk)
    job.save(force_insert=True)
    return job, build


def test_what_an_agent_was_before_keeps_no_build_from_ending(world: World) -> None:
    job, build = _legacy(
        "GithubClone",
        owner_id="1",
        name="old",
        repo_full_name="../..",
        prior_version="9" * 60,
        prior_image="nasiko/old:1",
        prior_status="running",
    )

    world.work()

    job.refresh_from_db()
    build.refresh_from_db()
    assert (job.status, job.hook_pending, build.status) == ("failed", False, "failed")
    agent = Agent.objects.get()
    assert (agent.status, agent.image) == ("running", "nasiko/old:1")


def test_a_rollback_row_with_an_unusable_path_fails_at_once(world: World) -> None:
    job, build = _legacy(
        "Rollback",
        caller_id="1",
        agent_name="old",
        target_version="1.0.0",
        target_image_tag="nasiko/old:1.0.0",
        writable_path="relative/..",
    )

    world.work()

    job.refresh_from_db()
    build.refresh_from_db()
    assert (job.error_code, job.attempt) == ("invalid_payload", 1)
    assert build.status == "failed"


def _lose_this_host(settings: Any, tmp_path: Path) -> None:
    """Have no worker of this host for long, and go on as another one."""
    lost = {"host": "a", "pid": 1, "slots": 1, "version": "1", "status": "lost"}
    Worker.objects.create(
        **lost,
        capabilities=[hosts.capability(host.host_id())],
        heartbeat_at=timezone.now() - timedelta(hours=1),
    )
    settings.BUILDQUEUE = {**settings.BUILDQUEUE, "DATA_DIR": tmp_path / "other"}
    host.mark_in_use()
    here = [hosts.capability(host.host_id())]
    Worker.objects.create(
        **lost | {"host": "b", "status": "running"}, capabilities=here
    )


def test_a_job_for_a_lost_host_blocks_no_later_one(
    world: World, settings: Any, tmp_path: Path
) -> None:
    made = upload()
    world.work()
    running.restart_agent(agent_of(made), actor=ANNA)
    _lose_this_host(settings, tmp_path)
    later = update(made.agent)
    assert world.work() == []

    assert cleaning.free_jobs_of_lost_hosts() == 1
    world.work()

    assert job_of(later).status == "done"
    assert cleaning.free_jobs_of_lost_hosts() == 0


def test_a_stop_for_a_lost_host_is_cancelled_and_counts(
    world: World, settings: Any, tmp_path: Path
) -> None:
    made = upload()
    world.work()
    stops = retirement.stop_agent(agent_of(made), actor=ANNA)
    _lose_this_host(settings, tmp_path)

    assert cleaning.free_jobs_of_lost_hosts() == 1

    assert BuildJob.objects.get(pk=stops[0].pk).status == "cancelled"
    assert agent_of(made).status == "stopped"


def test_jobs_of_hosts_that_are_there_are_left_alone(world: World) -> None:
    made = upload()
    world.work()
    asked = running.restart_agent(agent_of(made), actor=ANNA)

    assert cleaning.free_jobs_of_lost_hosts() == 0
    assert BuildJob.objects.get(pk=asked.pk).requires == asked.requires is not None


def test_ports_of_an_artifact_survive_a_restart_and_a_rollback(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = FakeBuilder.build

    def exposing(
        self: FakeBuilder, request: BuildRequest, on_line: LineCallback
    ) -> BuiltArtifact:
        return replace(build(self, request, on_line), ports=(9000,))

    monkeypatch.setattr(FakeBuilder, "build", exposing)
    made = upload()
    world.work()
    running.restart_agent(agent_of(made), actor=ANNA)
    world.work()
    assert running_of(made.agent).spec_ports == [9000]

    update(made.agent)
    world.work()
    rollback(agent_of(made))
    world.work()
    assert running_of(made.agent).spec_ports == [9000]
