"""How is a connector deleted, and what is left of it?"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from buildqueue.builds.connectors.refreshing import refresh_tools
from buildqueue.builds.connectors.retirement import delete_connector
from buildqueue.exceptions import Refused
from buildqueue.executors import host
from buildqueue.models import BuildJob, JobEvent, Worker
from buildqueue.queue import verbs
from tests.factories import make_connector
from tests.integration.builds.conftest import ANNA, Crash, World, version_at

from .conftest import build_of, connector_of, job_of, submit, tools_of


def test_a_deleted_connector_leaves_nothing_on_its_host(world: World) -> None:
    submitted = submit()
    world.work()
    address = connector_of(submitted).url

    (job,) = delete_connector(connector_of(submitted), actor=ANNA, reason="not needed")
    assert connector_of(submitted).deleted_at is not None
    assert not connector_of(submitted).is_active
    assert job.requires == f"host:{host.host_id()}"
    world.work()

    job.refresh_from_db()
    assert (job.kind, job.status) == ("connector_delete", "done")
    assert world.runtime.workloads() == []
    assert world.builder.programs == {}
    assert version_at(address) is None
    connector = connector_of(submitted)
    assert (connector.build_status, connector.url) == ("failed", None)
    assert connector.instance_id is None
    assert build_of(submitted).status == "success"
    assert JobEvent.objects.filter(job=job, kind="note", title="not needed").exists()


def test_the_name_is_free_again(world: World) -> None:
    first = submit()
    world.work()
    delete_connector(first.connector, actor=ANNA)

    second = submit()
    world.work()

    assert second.connector.pk != first.connector.pk
    assert connector_of(second).build_status == "running"
    assert len(world.runtime.workloads()) == 1


def test_deleting_cancels_what_is_open(world: World) -> None:
    submit()
    world.work()
    waiting = submit()

    delete_connector(waiting.connector, actor=ANNA, reason="away with it")

    job = job_of(waiting)
    assert (job.status, job.error_msg) == ("cancelled", "away with it")
    assert build_of(waiting).status == "failed"


def test_deleting_twice_is_fine(world: World) -> None:
    submitted = submit()
    world.work()

    first = delete_connector(submitted.connector, actor=ANNA)
    again = delete_connector(submitted.connector, actor=ANNA)

    assert [job.pk for job in first] == [job.pk for job in again]
    world.work()
    assert BuildJob.objects.filter(kind="connector_delete").count() == 1


def test_a_connector_that_never_got_to_a_host_needs_no_job_to_go(world: World) -> None:
    submitted = submit()

    assert delete_connector(submitted.connector, actor=ANNA) == []
    assert job_of(submitted).status == "cancelled"


def test_a_connector_that_is_run_elsewhere_is_only_marked(world: World) -> None:
    external = make_connector(
        source_kind="external_url", build_status=None, url="https://example.org/mcp"
    )

    assert delete_connector(external, actor=ANNA) == []

    external.refresh_from_db()
    assert external.deleted_at is not None
    assert external.build_status is None


def test_a_deleted_connector_refuses_what_is_asked_of_it(world: World) -> None:
    submitted = submit(program="BUILD_FAILS")
    world.work()
    delete_connector(submitted.connector, actor=ANNA)

    with pytest.raises(Refused) as retrying:
        verbs.retry(submitted.job.pk, actor=ANNA)
    with pytest.raises(Refused) as refreshing:
        refresh_tools(submitted.connector, actor=ANNA)

    assert (retrying.value.code, retrying.value.status) == ("connector_deleted", 409)
    assert refreshing.value.code == "connector_deleted"


@pytest.mark.parametrize("point", ["build", "start", "health", "promote", "promoted"])
@pytest.mark.parametrize("dies", [False, True])
def test_deleting_in_the_middle_leaves_no_process(
    world: World, point: str, dies: bool
) -> None:
    submitted = submit()

    def delete() -> None:
        delete_connector(submitted.connector, actor=ANNA)
        if dies:
            raise Crash

    world.interfere(point, delete)
    world.work()

    assert world.interfered
    assert not [
        one
        for workload in world.runtime.workloads()
        for one in workload.instances
        if one.pid
    ]
    assert not BuildJob.objects.filter(completed_at=None).exists()


@pytest.mark.parametrize("point", ["delete", "stop", "remove"])
def test_a_deletion_that_is_killed_is_finished_by_the_next_attempt(
    world: World, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted = submit()
    world.work()
    (job,) = delete_connector(submitted.connector, actor=ANNA)
    remove = world.builder.remove

    def die(reference: str = "") -> None:
        monkeypatch.setattr(world.builder, "remove", remove)
        raise Crash

    if point == "remove":
        monkeypatch.setattr(world.builder, "remove", die)
    else:
        world.interfere(point, die)
    world.work()

    job.refresh_from_db()
    assert (job.status, job.crashes) == ("done", 1)
    assert world.runtime.workloads() == []
    assert world.builder.programs == {}


def test_nothing_waits_for_a_host_that_is_gone(world: World) -> None:
    submitted = submit()
    world.work()
    for seen_host, minutes in (("another", 0), (host.host_id(), 60)):
        Worker.objects.create(
            host="somewhere",
            pid=1,
            slots=1,
            version="1",
            capabilities=[f"host:{seen_host}"],
            heartbeat_at=timezone.now() - timedelta(minutes=minutes),
        )

    assert submit().job.requires is None
    with pytest.raises(Refused) as refused:
        refresh_tools(submitted.connector, actor=ANNA)
    assert refused.value.code == "connector_not_running"
    assert delete_connector(submitted.connector, actor=ANNA) == []
    assert connector_of(submitted).instance_id is None


def test_tools_are_brought_up_to_date(world: World) -> None:
    submitted = submit()
    world.work()
    changed = dict.fromkeys(world.builder.programs, "TOOLS tell whisper\n")
    world.builder.programs.update(changed)

    job = refresh_tools(submitted.connector, actor=ANNA)
    assert refresh_tools(submitted.connector, actor=ANNA).pk == job.pk
    world.work()

    job.refresh_from_db()
    assert (job.kind, job.status) == ("connector_refresh", "done")
    assert tools_of(submitted) == ["tell", "whisper"]
    assert connector_of(submitted).build_status == "running"


def test_a_refresh_that_fails_changes_nothing(world: World) -> None:
    submitted = submit()
    world.work()
    world.builder.programs.update(dict.fromkeys(world.builder.programs, "NO_MCP\n"))

    job = refresh_tools(submitted.connector, actor=ANNA)
    world.work()

    job.refresh_from_db()
    assert (job.status, job.error_code) == ("failed", "mcp_protocol_error")
    assert tools_of(submitted) == ["echo", "tell"]
    assert connector_of(submitted).build_status == "running"


def test_a_connector_that_does_not_run_has_nothing_to_tell(world: World) -> None:
    submitted = submit(program="BUILD_FAILS")
    world.work()

    with pytest.raises(Refused) as refused:
        refresh_tools(submitted.connector, actor=ANNA)

    assert (refused.value.code, refused.value.status) == ("connector_not_running", 409)
