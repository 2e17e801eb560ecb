"""Do job, build, version, deployment, agent and runtime agree, however a job ends?

Every act of the outside world at every point of the executor, on a first and on a
second upload; afterwards the tables and the runtime are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from django.db import connection

from buildqueue.builds.retirement import delete_agent
from buildqueue.executors.reconcile import reconcile_host
from buildqueue.models import Agent, AgentBuild, AgentDeployment, AgentVersion, BuildJob
from buildqueue.queue import recovery, verbs
from buildqueue.states import JobStatus

from .conftest import ANNA, Crash, World, upload, version_at

POINTS = ["build", "start", "promote", "promoted"]


def _crash(job_id: UUID) -> None:
    raise Crash


def _fail(job_id: UUID) -> None:
    raise RuntimeError("nobody expected this")


def _cancel(job_id: UUID) -> None:
    verbs.cancel(job_id, actor=ANNA, reason="enough")


def _force_fail(job_id: UUID) -> None:
    verbs.force_fail(job_id, actor=ANNA)


def _release(job_id: UUID) -> None:
    verbs.release(job_id, actor=ANNA, reason="it hangs")


def _lease_over(job_id: UUID) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE buildqueue_buildjob SET lease_until = now() - interval '1 minute' "
            "WHERE id = %s",
            [job_id],
        )
    recovery.rescue_expired()


def _delete(job_id: UUID) -> None:
    agent = Agent.objects.get(jobs__pk=job_id)
    delete_agent(agent, actor=ANNA)


def _mark_deleted(job_id: UUID) -> None:
    Agent.objects.filter(jobs__pk=job_id).update(deleted_at="2020-01-01T00:00:00Z")


def _delete_row(job_id: UUID) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM buildqueue_agent "
            "WHERE id = (SELECT agent_id FROM buildqueue_buildjob WHERE id = %s)",
            [job_id],
        )


ACTS: list[Callable[[UUID], None]] = [
    _crash,
    _fail,
    _cancel,
    _force_fail,
    _release,
    _lease_over,
    _delete,
    _mark_deleted,
    _delete_row,
]


@pytest.mark.parametrize("before", [False, True], ids=["first", "second"])
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__.strip("_"))
def test_everything_agrees_whatever_happens_when(
    world: World, act: Callable[[UUID], None], point: str, before: bool
) -> None:
    if before:
        upload(version="1.0.0")
        world.work()
    submitted = upload(version="1.1.0")
    world.interfere(point, lambda: act(submitted.job.pk))

    world.work()
    assert world.interfered
    reconcile_host()

    _assert_agreement(world)


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_is_made_good_by_the_next_attempt(world: World, point: str) -> None:
    submitted = upload(version="1.0.0")

    def die() -> None:
        raise Crash

    world.interfere(point, die)
    world.work()

    job = BuildJob.objects.get(pk=submitted.job.pk)
    assert (job.status, job.attempt, job.crashes) == ("done", 2, 1)
    statuses = AgentDeployment.objects.values_list("status", flat=True)
    assert list(statuses).count("running") == 1
    assert version_at(Agent.objects.get().url) == "1.0.0"


def _assert_agreement(world: World) -> None:
    assert not BuildJob.objects.filter(completed_at=None).exists()
    assert not BuildJob.objects.filter(hook_pending=True).exists()
    for build in AgentBuild.objects.select_related("job"):
        assert build.job is not None
        good = build.job.status == JobStatus.DONE
        assert build.status == ("success" if good else "failed"), build.job.status
        assert build.completed_at is not None
        if not good:
            assert build.error_code == build.job.error_code
    assert not AgentVersion.objects.filter(status="building").exists()
    assert not AgentDeployment.objects.filter(status="starting").exists()
    for agent in Agent.objects.live():
        _assert_agent_agrees(world, agent)
    live = {str(pk) for pk in Agent.objects.live().values_list("pk", flat=True)}
    for workload in world.runtime.workloads():
        assert workload.workload_id in live, "a deleted agent has a workload"


def _assert_agent_agrees(world: World, agent: Agent) -> None:
    seen = world.runtime.status(str(agent.pk))
    running = [one.instance_id for one in seen.instances if one.pid] if seen else []
    rows = AgentDeployment.objects.filter(agent=agent, status="running")
    assert running == [str(row.pk) for row in rows]
    assert agent.status == ("running" if running else "failed")
    if running:
        assert version_at(agent.url) == agent.version
        active = AgentVersion.objects.get(agent=agent, is_active=True)
        assert (active.version, active.image_tag) == (agent.version, agent.image)
