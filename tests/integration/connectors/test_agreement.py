"""Do job, build, connector and runtime agree, however a job ends?

Every act of the outside world at every point of the executor, on a first and on a second
upload; afterwards the tables and the runtime are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from django.db import connection

from buildqueue.builds import sources
from buildqueue.builds.connectors.retirement import delete_connector
from buildqueue.executors.reconcile import reconcile_host
from buildqueue.models import BuildJob, JobEvent, McpConnector, McpConnectorBuild
from buildqueue.queue import recovery, verbs
from buildqueue.states import JobStatus
from tests.integration.builds.conftest import ANNA, Crash, World, version_at

from .conftest import connector_of, job_of, submit, tools_of

POINTS = ["build", "start", "health", "promote", "promoted"]


def _crash(job_id: UUID) -> None:
    raise Crash


def _fail(job_id: UUID) -> None:
    raise RuntimeError("nobody expected this")


def _cancel(job_id: UUID) -> None:
    verbs.cancel(job_id, actor=ANNA, reason="enough")


def _force_fail(job_id: UUID) -> None:
    verbs.force_fail(job_id, actor=ANNA, reason="enough")


def _die_and_fail(job_id: UUID) -> None:
    verbs.force_fail(job_id, actor=ANNA, reason="it hangs")
    raise Crash


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
    connector = McpConnector.objects.get(jobs__pk=job_id)
    delete_connector(connector, actor=ANNA)


def _delete_and_die(job_id: UUID) -> None:
    _delete(job_id)
    raise Crash


def _mark_deleted(job_id: UUID) -> None:
    McpConnector.objects.filter(jobs__pk=job_id).update(
        deleted_at="2020-01-01T00:00:00Z"
    )


def _delete_row(job_id: UUID) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM buildqueue_mcpconnector "
            "WHERE id = (SELECT connector_id FROM buildqueue_buildjob WHERE id = %s)",
            [job_id],
        )


ACTS: list[Callable[[UUID], None]] = [
    _crash,
    _fail,
    _cancel,
    _force_fail,
    _die_and_fail,
    _release,
    _lease_over,
    _delete,
    _delete_and_die,
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
        submit()
        world.work()
    submitted = submit(program="TOOLS echo sing\n")
    world.interfere(point, lambda: act(submitted.job.pk))

    world.work()
    assert world.interfered
    reconcile_host()

    _assert_agreement(world)


@pytest.mark.parametrize("point", ["build", "start", "health", "promote"])
@pytest.mark.parametrize("act", [_cancel, _die_and_fail], ids=["cancel", "die"])
def test_what_an_ended_job_has_left_is_ended_without_waiting_for_a_duty(
    world: World, point: str, act: Callable[[UUID], None]
) -> None:
    submitted = submit()
    world.interfere(point, lambda: act(submitted.job.pk))

    world.work()

    seen = world.runtime.status(str(submitted.connector.pk))
    assert not [one for one in (seen.instances if seen else ()) if one.pid]


@pytest.mark.parametrize("point", ["fetch", *POINTS])
def test_a_crash_is_made_good_by_the_next_attempt_without_repeating_what_is_done(
    world: World, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted = submit()
    _die_at(world, point, monkeypatch)

    world.work()

    job = job_of(submitted)
    assert (job.status, job.attempt, job.crashes) == ("done", 2, 1)
    connector = connector_of(submitted)
    seen = world.runtime.status(str(connector.pk))
    assert seen is not None
    assert [one.instance_id for one in seen.instances if one.pid] == [
        str(connector.instance_id)
    ]
    assert version_at(connector.url) is not None
    assert tools_of(submitted) == ["echo", "tell"]
    finished = JobEvent.objects.filter(job=job, kind="step_finished")
    titles = list(finished.values_list("title", flat=True))
    # What stands for the death of a process here is seen by it, which ends its instance.
    again = {"deploy"} if point == "health" else set()
    assert {title for title in titles if titles.count(title) > 1} == again


def _die_at(world: World, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def die() -> None:
        raise Crash

    if point != "fetch":
        world.interfere(point, die)
        return
    read = sources.exists

    def exists(key: str) -> bool:
        monkeypatch.setattr(sources, "exists", read)
        raise Crash

    monkeypatch.setattr(sources, "exists", exists)


def _assert_agreement(world: World) -> None:
    assert not BuildJob.objects.filter(completed_at=None).exists()
    assert not BuildJob.objects.filter(hook_pending=True).exists()
    for build in McpConnectorBuild.objects.select_related("job"):
        assert build.job is not None
        good = build.job.status == JobStatus.DONE
        assert build.status == ("success" if good else "failed"), build.job.status
        assert build.completed_at is not None
        if not good:
            assert build.error_code == build.job.error_code
    live = McpConnector.objects.filter(deleted_at=None)
    for connector in live:
        _assert_connector_agrees(world, connector)
    ids = {str(pk) for pk in live.values_list("pk", flat=True)}
    for workload in world.runtime.workloads():
        assert workload.workload_id in ids, "a deleted connector has a workload"


def _assert_connector_agrees(world: World, connector: McpConnector) -> None:
    seen = world.runtime.status(str(connector.pk))
    running = [one.instance_id for one in seen.instances if one.pid] if seen else []
    wanted = [str(connector.instance_id)] if connector.instance_id else []
    assert running == wanted
    assert connector.build_status == ("running" if running else "failed")
    if running:
        build = McpConnectorBuild.objects.get(image_tag=connector.container_image_tag)
        assert version_at(connector.url) == f"1.0.0-{build.pk.hex[:12]}"
        tools = set(connector.tools.values_list("name", flat=True))
        assert tools in ({"echo", "tell"}, {"echo", "sing"})
