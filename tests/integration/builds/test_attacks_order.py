"""Does what was asked for last hold, whatever waits, runs or was asked for before?"""

from __future__ import annotations

import pytest

from buildqueue.builds import environment, retirement, running, settings_of
from buildqueue.exceptions import Refused
from buildqueue.models import BuildJob
from buildqueue.queue import verbs

from .acting import fresh, rollback, update
from .conftest import ANNA, World, agent_of, job_of, upload


def test_a_restart_does_not_bring_back_what_its_version_was_built_with(
    world: World,
) -> None:
    made = upload(env={"TOKEN": "the-old-value", "GONE": "removed-since"})
    world.work()
    settings_of.set_env(
        agent_of(made), {"TOKEN": "the-new-value", "GONE": None}, actor=ANNA
    )

    running.restart_agent(agent_of(made), actor=ANNA)
    world.work()

    assert world.runtime.specs[-1].env == {"TOKEN": "the-new-value"}
    assert environment.environment_of(agent_of(made), {}) == world.runtime.specs[-1].env


def test_a_scale_asked_for_again_after_another_one_is_done_again(world: World) -> None:
    made = upload()
    world.work()

    for replicas in (3, 2, 3):
        running.scale_agent(agent_of(made), replicas, actor=ANNA)
    world.work()

    assert agent_of(made).replicas == 3


def test_the_same_scale_asked_for_twice_is_one_job(world: World) -> None:
    made = upload()
    world.work()

    jobs = [running.scale_agent(agent_of(made), 2, actor=ANNA) for _ in range(2)]

    assert jobs[0] is not None
    assert jobs[0] == jobs[1]


def test_a_restart_behind_a_stop_leaves_the_agent_running(world: World) -> None:
    made = upload()
    world.work()

    running.restart_agent(agent_of(made), actor=ANNA)
    retirement.stop_agent(agent_of(made), actor=ANNA)
    running.restart_agent(agent_of(made), actor=ANNA)
    world.work()

    assert agent_of(made).status == "running"


def test_a_stop_behind_a_restart_leaves_the_agent_stopped(world: World) -> None:
    made = upload()
    world.work()

    retirement.stop_agent(agent_of(made), actor=ANNA)
    running.restart_agent(agent_of(made), actor=ANNA)
    retirement.stop_agent(agent_of(made), actor=ANNA)
    world.work()

    assert agent_of(made).status == "stopped"


def test_a_stop_asked_for_twice_is_one_job(world: World) -> None:
    made = upload()
    world.work()

    first, again = (retirement.stop_agent(agent_of(made), actor=ANNA) for _ in range(2))

    assert first == again
    assert len(first) == 1


def test_a_stop_while_a_start_waits_is_refused_and_not_lost(world: World) -> None:
    made = upload()
    world.work()
    retirement.stop_agent(agent_of(made), actor=ANNA)
    world.work()
    running.start_agent(agent_of(made), actor=ANNA)

    with pytest.raises(Refused) as refused:
        retirement.stop_agent(agent_of(made), actor=ANNA)

    assert refused.value.code == "agent_deploying"


def test_a_restart_asked_for_while_one_runs_knows_what_was_changed_meanwhile(
    world: World,
) -> None:
    made = upload()
    world.work()
    first = running.restart_agent(agent_of(made), actor=ANNA)

    def change() -> None:
        settings_of.set_env(agent_of(made), {"MODE": "changed"}, actor=ANNA)
        assert running.restart_agent(agent_of(made), actor=ANNA) != first

    world.interfere("start", change)
    world.work()

    assert world.runtime.specs[-1].env == {"MODE": "changed"}


def test_a_retry_is_refused_when_another_build_has_taken_the_version(
    world: World,
) -> None:
    made = upload()
    world.work()
    failed = update(made.agent, program="UNHEALTHY", version="2.0.0")
    world.work()
    update(made.agent, version="2.0.0")
    world.work()

    with pytest.raises(Refused) as refused:
        verbs.retry(failed.job.pk, actor=ANNA)

    assert refused.value.code == "version_taken"
    assert job_of(failed).status == "failed"
    assert fresh(made.agent).version == "2.0.0"


def test_reasons_with_characters_that_no_row_holds_are_kept_without_them(
    world: World,
) -> None:
    odd = "because\0of\ud800"
    made = upload(changelog=odd)
    world.work()
    update(made.agent, changelog=odd)
    world.work()

    rollback(agent_of(made), reason=odd)
    running.restart_agent(agent_of(made), actor=ANNA, reason=odd)
    retirement.stop_agent(agent_of(made), actor=ANNA, reason=odd)
    retirement.delete_agent(agent_of(made), actor=ANNA, reason=odd)
    world.work()

    assert not BuildJob.objects.filter(completed_at=None).exists()
