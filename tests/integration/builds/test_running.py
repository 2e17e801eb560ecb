"""Can an agent be stopped, started, restarted and scaled, and does a failure leave it?"""

from __future__ import annotations

import pytest

from buildqueue.builds import running, settings_of
from buildqueue.builds.retirement import delete_agent, stop_agent
from buildqueue.exceptions import Refused
from buildqueue.models import Agent, AgentBuild, AgentDeployment, BuildJob
from buildqueue.queue import verbs

from .acting import fresh, running_of
from .conftest import ANNA, Crash, World, upload, version_at


@pytest.fixture
def agent(world: World) -> Agent:
    """Return an agent that runs."""
    made = upload(version="1.0.0", env={"MODEL": "small"})
    world.work()
    return fresh(made.agent)


def test_a_stopped_agent_starts_again_at_its_address(
    world: World, agent: Agent
) -> None:
    stop_agent(agent, actor=ANNA)
    world.work()
    assert (fresh(agent).status, version_at(agent.url)) == ("stopped", None)

    running.start_agent(fresh(agent), actor=ANNA)
    world.work()

    assert (fresh(agent).status, fresh(agent).url) == ("running", agent.url)
    assert version_at(agent.url) == "1.0.0"
    statuses = agent.deployments.order_by("created_at").values_list("status", flat=True)
    assert list(statuses) == ["stopped", "running"]


def test_what_runs_is_not_started_but_restarted(world: World, agent: Agent) -> None:
    with pytest.raises(Refused) as refused:
        running.start_agent(agent, actor=ANNA)
    assert (refused.value.code, refused.value.status) == ("already_running", 409)

    old = running_of(agent).pk
    running.restart_agent(agent, actor=ANNA, reason="new settings")
    world.work()

    assert running_of(agent).pk != old
    assert AgentDeployment.objects.get(pk=old).status == "stopped"
    assert version_at(agent.url) == "1.0.0"


def test_a_restart_takes_over_the_environment_of_now(
    world: World, agent: Agent
) -> None:
    settings_of.set_env(agent, {"MODEL": "large", "LEVEL": "3"}, actor=ANNA)
    assert world.runtime.specs[-1].env == {"MODEL": "small"}

    running.restart_agent(fresh(agent), actor=ANNA)
    world.work()

    assert world.runtime.specs[-1].env == {"MODEL": "large", "LEVEL": "3"}
    assert running_of(agent).spec_env == ["LEVEL", "MODEL"]


def test_a_restart_adds_no_build_and_no_version(world: World, agent: Agent) -> None:
    running.restart_agent(agent, actor=ANNA)
    world.work()

    assert AgentBuild.objects.count() == 1
    assert fresh(agent).versions.count() == 1
    assert running_of(agent).build == AgentBuild.objects.get()


def test_two_restarts_at_once_are_one(world: World, agent: Agent) -> None:
    one = running.restart_agent(agent, actor=ANNA)
    other = running.restart_agent(agent, actor=ANNA)

    assert one.pk == other.pk


def test_a_restart_that_fails_leaves_the_old_one_running(
    world: World, agent: Agent
) -> None:
    old = running_of(agent)
    world.builder.programs[agent.image or ""] = "# the disk is full\nEXITS\n"

    job = running.restart_agent(agent, actor=ANNA)
    world.work()

    job.refresh_from_db()
    assert (job.status, job.error_code) == ("failed", "start_failed")
    assert running_of(agent).pk == old.pk
    assert fresh(agent).status == "running"
    assert version_at(agent.url) == "1.0.0"
    failed = AgentDeployment.objects.get(agent=agent, status="failed")
    assert "the disk is full" in (failed.last_logs or "")


def test_a_start_without_its_artifact_says_so(world: World, agent: Agent) -> None:
    world.builder.remove(agent.image or "")

    job = running.restart_agent(agent, actor=ANNA)
    world.work()

    job.refresh_from_db()
    assert job.error_code == "artifact_missing"
    assert version_at(agent.url) == "1.0.0"


def test_an_agent_without_a_version_cannot_be_started(world: World) -> None:
    made = upload(program="BUILD_FAILS")
    world.work()

    with pytest.raises(Refused) as refused:
        running.start_agent(fresh(made.agent), actor=ANNA)
    assert refused.value.code == "nothing_to_start"


def test_a_start_killed_before_the_switch_and_cancelled_leaves_no_instance(
    world: World, agent: Agent
) -> None:
    stop_agent(agent, actor=ANNA)
    world.work()
    job = running.start_agent(fresh(agent), actor=ANNA)

    def cancel_and_die() -> None:
        verbs.cancel(job.pk, actor=ANNA)
        raise Crash

    world.interfere("promote", cancel_and_die)
    world.work()

    seen = world.runtime.workloads()
    assert not [
        one for each in seen for one in each.instances if one.state == "running"
    ]
    assert fresh(agent).status == "stopped"
    assert not AgentDeployment.objects.filter(status="starting").exists()


def test_an_agent_is_scaled_up_and_down(world: World, agent: Agent) -> None:
    for wanted in (3, 1):
        job = running.scale_agent(fresh(agent), wanted, actor=ANNA)
        world.work()

        assert job is not None
        job.refresh_from_db()
        assert job.status == "done"
        assert fresh(agent).replicas == running_of(agent).replicas == wanted
        status = world.runtime.status(str(agent.pk))
        assert status is not None
        assert status.replicas == wanted
        assert version_at(agent.url) == "1.0.0"


def test_a_stopped_agent_has_its_copies_at_the_next_start(
    world: World, agent: Agent
) -> None:
    stop_agent(agent, actor=ANNA)
    world.work()

    assert running.scale_agent(fresh(agent), 2, actor=ANNA) is None
    running.start_agent(fresh(agent), actor=ANNA)
    world.work()

    assert (running_of(agent).replicas, fresh(agent).replicas) == (2, 2)


@pytest.mark.parametrize("replicas", [0, -1, 17])
def test_impossible_numbers_of_copies_are_refused(
    world: World, agent: Agent, replicas: int
) -> None:
    with pytest.raises(Refused) as refused:
        running.scale_agent(agent, replicas, actor=ANNA)
    assert refused.value.code == "invalid_parameter"


def test_a_deleted_agent_is_neither_started_nor_scaled(
    world: World, agent: Agent
) -> None:
    delete_agent(agent, actor=ANNA)

    for act in (
        lambda: running.start_agent(agent, actor=ANNA),
        lambda: running.restart_agent(agent, actor=ANNA),
        lambda: running.scale_agent(agent, 2, actor=ANNA),
    ):
        with pytest.raises(Refused) as refused:
            act()
        assert refused.value.code == "agent_deleted"
    world.work()
    assert not BuildJob.objects.filter(kind__in=["agent_start", "agent_scale"]).exists()
