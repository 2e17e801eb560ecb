"""Does a host come to run the connectors that the database says, and where it says?"""

from __future__ import annotations

import uuid

import pytest

from buildqueue.backends.base import WorkloadSpec
from buildqueue.executors import reconcile
from buildqueue.executors.reconcile import Counts, reconcile_host
from buildqueue.models import McpConnector
from tests.integration.builds.conftest import World, upload, version_at

from .conftest import ConnectorSubmission, connector_of, submit


@pytest.fixture
def running(world: World) -> ConnectorSubmission:
    submitted = submit(env={"API_KEY": "plain-secret"})
    world.work()
    assert connector_of(submitted).build_status == "running"
    return submitted


def _instances(world: World, found: ConnectorSubmission) -> list[str]:
    seen = world.runtime.status(str(found.connector.pk))
    return [one.instance_id for one in seen.instances if one.pid] if seen else []


def _change(**values: object) -> None:
    McpConnector.objects.update(**values)


def _start(world: World, workload_id: str, instance_id: str) -> None:
    reference = next(iter(world.builder.programs))
    world.runtime.start(
        WorkloadSpec(
            workload_id=workload_id, instance_id=instance_id, reference=reference
        )
    )


def test_nothing_is_done_where_all_is_well(
    world: World, running: ConnectorSubmission
) -> None:
    upload()
    world.work()

    assert reconcile_host() == Counts()


def test_a_wrong_url_is_corrected(world: World, running: ConnectorSubmission) -> None:
    right = connector_of(running).url
    _change(url="http://127.0.0.1:1/mcp")

    assert reconcile_host() == Counts(corrected=1)

    assert connector_of(running).url == right
    assert reconcile_host() == Counts()


def test_an_instance_that_the_database_has_forgotten_is_found_again(
    world: World, running: ConnectorSubmission
) -> None:
    before = connector_of(running)
    _change(instance_id=None, host=None)

    assert reconcile_host() == Counts(corrected=1)

    after = connector_of(running)
    assert (after.instance_id, after.host) == (before.instance_id, before.host)
    assert version_at(after.url) is not None


def test_the_databases_instance_is_led_to_again(
    world: World, running: ConnectorSubmission
) -> None:
    workload = str(running.connector.pk)
    _start(world, workload, "stray")
    world.runtime.promote(workload, "stray")

    assert reconcile_host().restored == 1

    connector = connector_of(running)
    assert _instances(world, running) == [str(connector.instance_id)]
    spec = world.runtime._workloads[workload].instances[str(connector.instance_id)].spec
    assert spec.env["API_KEY"] == "plain-secret"
    assert reconcile_host() == Counts()


def test_what_answers_is_taken_where_the_databases_instance_cannot_be_had(
    world: World, running: ConnectorSubmission
) -> None:
    answering = connector_of(running).instance_id
    _change(instance_id=uuid.uuid4(), container_image_tag="fake:gone")

    assert reconcile_host().corrected == 1

    assert connector_of(running).instance_id == answering
    assert _instances(world, running) == [str(answering)]
    assert connector_of(running).build_status == "running"


def test_a_candidate_without_a_job_is_ended(
    world: World, running: ConnectorSubmission
) -> None:
    _start(world, str(running.connector.pk), "left")

    assert reconcile_host() == Counts(ended=1)

    assert _instances(world, running) == [str(connector_of(running).instance_id)]


def test_nothing_is_touched_while_a_build_is_open(
    world: World, running: ConnectorSubmission
) -> None:
    submit()
    _start(world, str(running.connector.pk), "candidate")
    _change(url="http://127.0.0.1:1/mcp")

    assert reconcile_host() == Counts()


def test_the_workload_of_a_deleted_connector_is_ended(
    world: World, running: ConnectorSubmission
) -> None:
    _change(deleted_at="2020-01-01T00:00:00Z")

    assert reconcile_host() == Counts(deleted=1)

    assert world.runtime.workloads() == []


def test_a_connector_that_moved_to_another_host_is_ended_here(
    world: World, running: ConnectorSubmission
) -> None:
    _change(host="another")

    assert reconcile_host() == Counts(ended=1)


def test_restarts_are_counted_and_a_crash_loop_is_told_and_forgiven(
    world: World, running: ConnectorSubmission
) -> None:
    workload = str(running.connector.pk)

    world.runtime.crash(workload, restarts=1, running=True)
    assert reconcile_host() == Counts()
    assert connector_of(running).restart_count == 1

    world.runtime.crash(workload, restarts=7, running=False)
    assert reconcile_host() == Counts(crashed=1)
    connector = connector_of(running)
    assert (connector.build_status, connector.restart_count) == ("failed", 7)
    assert connector.crashed_at is not None
    assert "restarted 7 times" in (connector.crash_reason or "")
    assert connector.last_logs == "hello"

    world.runtime.crash(workload, restarts=7, running=True)
    assert reconcile_host() == Counts(recovered=1)
    connector = connector_of(running)
    assert (connector.build_status, connector.crash_reason) == ("running", None)


def test_the_next_upload_forgets_the_crashes(
    world: World, running: ConnectorSubmission
) -> None:
    world.runtime.crash(str(running.connector.pk), restarts=7, running=False)
    reconcile_host()

    again = submit()
    world.work()

    connector = connector_of(again)
    assert (connector.build_status, connector.restart_count) == ("running", 0)
    assert (connector.crash_reason, connector.last_logs) == (None, None)


def test_a_failed_upload_of_a_crashing_connector_leaves_it_failed(
    world: World, running: ConnectorSubmission
) -> None:
    world.runtime.crash(str(running.connector.pk), restarts=7, running=False)
    reconcile_host()

    submit(program="BUILD_FAILS")
    world.work()

    assert connector_of(running).build_status == "failed"
    assert "restarted 7 times" in (connector_of(running).crash_reason or "")


def test_a_connector_that_was_lost_with_its_runtime_is_told_once(
    world: World, running: ConnectorSubmission
) -> None:
    world.runtime.delete(str(running.connector.pk))

    assert reconcile_host() == Counts(crashed=1)
    assert reconcile_host() == Counts()

    assert connector_of(running).build_status == "failed"


def test_connectors_and_agents_are_told_apart(
    world: World, running: ConnectorSubmission
) -> None:
    agent = upload()
    world.work()
    stranger = str(uuid.uuid4())
    _start(world, stranger, "x")

    assert reconcile.reconcile_host() == Counts(deleted=1)

    left = {one.workload_id for one in world.runtime.workloads()}
    assert left == {str(agent.agent.pk), str(running.connector.pk)}
