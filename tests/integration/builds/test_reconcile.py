"""Does a host come to run what the database says?"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from buildqueue.backends.base import WorkloadSpec
from buildqueue.exceptions import Unavailable
from buildqueue.executors import base, reconcile
from buildqueue.models import AgentDeployment

from .conftest import World, agent_of, upload, version_at


def _reference(world: World) -> str:
    return next(iter(world.builder.programs))


def test_nothing_is_done_where_all_is_well(world: World) -> None:
    upload()
    world.work()

    assert reconcile.reconcile_host() == reconcile.Counts()


def test_the_workload_of_an_unknown_agent_is_deleted(world: World) -> None:
    upload()
    world.work()
    stranger = str(uuid.uuid4())
    world.runtime.start(
        WorkloadSpec(workload_id=stranger, instance_id="x", reference=_reference(world))
    )

    assert reconcile.reconcile_host().deleted == 1

    assert world.runtime.status(stranger) is None
    assert len(world.runtime.workloads()) == 1


def test_a_workload_with_another_kind_of_id_is_left_alone(world: World) -> None:
    upload()
    world.work()
    world.runtime.start(
        WorkloadSpec(workload_id="other", instance_id="x", reference=_reference(world))
    )

    assert reconcile.reconcile_host() == reconcile.Counts()
    assert world.runtime.status("other") is not None


def test_a_candidate_without_a_job_is_ended_and_the_running_one_stays(
    world: World,
) -> None:
    submitted = upload()
    world.work()
    workload = str(submitted.agent.pk)
    world.runtime.start(
        WorkloadSpec(
            workload_id=workload, instance_id="left", reference=_reference(world)
        )
    )

    assert reconcile.reconcile_host().ended == 1

    assert version_at(agent_of(submitted).url) == "1.0.0"


def test_nothing_of_an_agent_is_ended_while_a_build_is_open(world: World) -> None:
    submitted = upload()
    world.work()
    upload()
    workload = str(submitted.agent.pk)
    world.runtime.start(
        WorkloadSpec(
            workload_id=workload, instance_id="candidate", reference=_reference(world)
        )
    )

    assert reconcile.reconcile_host() == reconcile.Counts()


def test_an_agent_that_moved_to_another_host_is_ended_here(world: World) -> None:
    submitted = upload()
    world.work()
    AgentDeployment.objects.update(host="another")

    assert reconcile.reconcile_host().ended == 1

    assert version_at(agent_of(submitted).url) is None


def test_a_deployment_that_was_lost_with_its_runtime_is_told(world: World) -> None:
    submitted = upload()
    world.work()
    world.runtime.delete(str(submitted.agent.pk))

    assert reconcile.reconcile_host().crashed == 1

    assert agent_of(submitted).status == "failed"
    assert AgentDeployment.objects.get().status == "crashed"


def test_restarts_are_counted_and_a_crash_loop_is_told_and_forgiven(
    world: World,
) -> None:
    submitted = upload()
    world.work()
    workload = str(submitted.agent.pk)

    world.runtime.crash(workload, restarts=1, running=True)
    assert reconcile.reconcile_host().crashed == 0
    assert AgentDeployment.objects.get().restart_count == 1

    world.runtime.crash(workload, restarts=7, running=False)
    assert reconcile.reconcile_host().crashed == 1
    deployment = AgentDeployment.objects.get()
    assert (deployment.status, deployment.restart_count) == ("crashed", 7)
    assert deployment.crashed_at is not None
    assert "restarted 7 times" in (deployment.crash_reason or "")
    assert agent_of(submitted).status == "failed"

    world.runtime.crash(workload, restarts=7, running=True)
    assert reconcile.reconcile_host().recovered == 1
    assert AgentDeployment.objects.get().status == "running"
    assert agent_of(submitted).status == "running"


def test_one_workload_that_fails_does_not_stop_the_others(world: World) -> None:
    upload()
    world.work()
    for _ in range(2):
        world.runtime.start(
            WorkloadSpec(
                workload_id=str(uuid.uuid4()),
                instance_id="x",
                reference=_reference(world),
            )
        )

    def unreachable() -> None:
        raise Unavailable("runtime_unreachable", "it is away")

    world.interfere("delete", unreachable)
    counts = reconcile.reconcile_host()

    assert (counts.deleted, len(counts.failed)) == (1, 1)
    assert reconcile.reconcile_host().deleted == 1


def test_a_runtime_that_is_away_is_no_fault(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise Unavailable("runtime_unreachable", "it is away")

    monkeypatch.setattr(world.runtime, "workloads", away)

    assert reconcile.reconcile_host() == reconcile.Counts()


def test_work_folders_of_dead_runs_are_removed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = base.work_root() / str(uuid.uuid4())
    (dead / "source").mkdir(parents=True)
    assert reconcile.reconcile_host().folders == 0, "it may have begun just now"

    monkeypatch.setattr(reconcile, "WORK_FOLDER_SECONDS", -1.0)
    seen: list[int] = []
    upload()
    world.interfere("build", lambda: seen.append(reconcile.reconcile_host().folders))
    world.work()

    assert seen == [1]
    assert not dead.exists()


def test_a_crash_is_told_although_the_agent_printed_nul(world: World) -> None:
    submitted = upload(program="# a\0b\n")
    world.work()
    world.runtime.crash(str(submitted.agent.pk), restarts=7, running=False)

    assert reconcile.reconcile_host().crashed == 1

    assert AgentDeployment.objects.get().last_logs == "a\N{SYMBOL FOR NULL}b"


def test_an_agent_whose_environment_the_runtime_cannot_open_is_started_again(
    world: World,
) -> None:
    made = upload(env={"KEY": "kept"})
    world.work()
    world.runtime.lock_out(str(made.agent.pk))
    assert version_at(agent_of(made).url) is None

    assert reconcile.reconcile_host().restored == 1

    assert version_at(agent_of(made).url) == "1.0.0"
    assert world.runtime.specs[-1].env == {"KEY": "kept"}
    assert reconcile.reconcile_host().restored == 0


def test_one_whose_secrets_no_key_reads_is_told_once_and_never_started_without(
    world: World, settings: Any
) -> None:
    made = upload(env={"KEY": "kept"})
    world.work()
    world.runtime.lock_out(str(made.agent.pk))
    settings.BUILDQUEUE = {**settings.BUILDQUEUE, "SECRET_KEYS": ("another" * 8,)}
    started = len(world.runtime.specs)

    crashed = [reconcile.reconcile_host().crashed for _ in range(2)]

    assert crashed == [1, 0]
    assert len(world.runtime.specs) == started
    deployment = AgentDeployment.objects.get()
    assert deployment.status == "crashed"
    assert "SECRET_KEYS" in (deployment.crash_reason or "")
