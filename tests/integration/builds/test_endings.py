"""Does a job that ends drive its target to an end, whatever wrote its rows?"""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from buildqueue.builds import lifecycle, sources
from buildqueue.exceptions import Refused, ResultMissing
from buildqueue.models import (
    Agent,
    AgentBuild,
    AgentVersion,
    BuildJob,
    McpConnector,
    McpConnectorBuild,
)
from buildqueue.queue import handlers, verbs
from buildqueue.queue.outcomes import Done
from tests.factories import make_agent, make_build, make_connector, make_job
from tests.support.zips import zipped

from .conftest import ANNA, World, agent_of, build_of, job_of, upload, version_at

INSERT = """
INSERT INTO buildqueue_buildjob (agent_id, connector_id, owner_id, payload)
VALUES (%s, %s, %s, %s) RETURNING id
"""


def _insert(payload: object, *, agent: Agent | None, **options: Any) -> BuildJob:
    """Insert a job as another system does: its own columns, nothing of ours."""
    connector = options.get("connector")
    with connection.cursor() as cursor:
        cursor.execute(
            INSERT,
            [
                agent.pk if agent else None,
                connector.pk if connector else None,
                str(uuid.uuid4()),
                json.dumps(payload),
            ],
        )
        return BuildJob.objects.get(pk=cursor.fetchone()[0])


def _end(job: BuildJob) -> None:
    """Run the final hook as the engine does: inside a transaction."""
    with transaction.atomic():
        lifecycle.on_final(job)


def _nasiko_upload(agent: Agent, build_id: object, zip_path: str) -> dict[str, object]:
    return {
        "kind": "Upload",
        "build_id": str(build_id),
        "agent_id": str(agent.pk),
        "owner_id": agent.owner_id,
        "upload_id": str(build_id),
        "name": agent.name,
        "zip_path": zip_path,
        "image_tag": f"nasiko/{agent.name}:2.1.0",
        "ports": [8000],
        "env": {},
        "writable": False,
    }


def test_a_raw_row_of_nasikos_is_built_and_deployed(
    world: World, tmp_path: Path
) -> None:
    file = tmp_path / "upload.zip"
    file.write_bytes(zipped().getvalue())
    agent = make_agent(status="deploying")
    build = make_build(agent, version_tag="2.1.0")
    job = _insert(_nasiko_upload(agent, build.pk, str(file)), agent=agent)

    world.work()

    job.refresh_from_db()
    build.refresh_from_db()
    agent.refresh_from_db()
    assert (job.status, build.status, agent.status) == ("done", "success", "running")
    assert (build.job_id, agent.version) == (job.pk, "2.1.0")
    assert version_at(agent.url) == "2.1.0"
    assert AgentVersion.objects.get(agent=agent).status == "active"


@pytest.mark.parametrize(
    "kind", ["Upload", "upload", "Update", "update", "", "strange"]
)
def test_a_raw_row_that_cannot_run_ends_its_build_and_agent(
    world: World, kind: str
) -> None:
    agent = make_agent(status="deploying")
    build = make_build(agent)
    job = _insert({"kind": kind, "build_id": str(build.pk)}, agent=agent)

    world.work()

    job.refresh_from_db()
    build.refresh_from_db()
    agent.refresh_from_db()
    assert (job.status, build.status, agent.status) == ("failed", "failed", "failed")
    assert job.error_code in ("invalid_payload", "unknown_kind")
    assert build.error_code == job.error_code


@pytest.mark.parametrize("payload", [{}, [], "text", 7, {"build_id": 3}])
def test_a_payload_that_is_nothing_like_one_still_ends_the_agent(
    world: World, payload: object
) -> None:
    agent = make_agent(status="deploying")
    job = _insert(payload, agent=agent)

    world.work()

    job.refresh_from_db()
    agent.refresh_from_db()
    assert (job.status, agent.status) == ("failed", "failed")
    assert not job.hook_pending


def test_the_build_of_another_agent_is_never_touched(world: World) -> None:
    victim = make_build(make_agent(status="running"))
    agent = make_agent(status="deploying")
    _insert({"kind": "strange", "build_id": str(victim.pk)}, agent=agent)

    world.work()

    victim.refresh_from_db()
    assert victim.status == "queued"


@pytest.mark.parametrize("kind", ["agent_stop", "agent_delete", "instance_end"])
def test_a_raw_row_never_ends_another_agents_processes(world: World, kind: str) -> None:
    victim = upload()
    world.work()
    payload = {"kind": kind, "agent_id": str(victim.agent.pk)}
    if kind == "instance_end":
        payload["instance_id"] = str(uuid.uuid4())
    before = len(world.runtime.calls)
    job = _insert(payload, agent=make_agent(owner_id="2", status="running"))

    world.work()

    job.refresh_from_db()
    assert (job.status, job.error_code) == ("failed", "wrong_target")
    assert world.runtime.calls[before:] == []
    assert version_at(agent_of(victim).url) == victim.version


def test_a_raw_row_never_builds_for_another_agent(world: World, tmp_path: Path) -> None:
    file = tmp_path / "upload.zip"
    file.write_bytes(zipped().getvalue())
    victim = make_agent(status="deploying")
    build = make_build(victim)
    payload = _nasiko_upload(victim, build.pk, str(file))
    job = _insert(payload, agent=make_agent(owner_id="2", name="other"))

    world.work()

    job.refresh_from_db()
    build.refresh_from_db()
    assert (job.status, job.error_code) == ("failed", "wrong_target")
    assert (build.status, build.job_id) == ("queued", None)
    assert world.builder.requests == []


def test_a_raw_row_with_a_taken_version_fails_before_anything_runs(
    world: World, tmp_path: Path
) -> None:
    submitted = upload(version="2.1.0")
    world.work()
    agent = agent_of(submitted)
    file = tmp_path / "upload.zip"
    file.write_bytes(zipped().getvalue())
    build = make_build(agent, version_tag="2.1.0")
    job = _insert(_nasiko_upload(agent, build.pk, str(file)), agent=agent)

    world.work()

    job.refresh_from_db()
    assert job.error_code == "version_taken"
    assert agent_of(submitted).status == "running"
    assert agent_of(submitted).image == agent.image


def test_a_stray_job_of_a_running_agent_leaves_it_running(world: World) -> None:
    agent = make_agent(status="running")
    _insert({"kind": "strange"}, agent=agent)

    world.work()

    agent.refresh_from_db()
    assert agent.status == "running"


def test_a_zip_that_is_not_here_fails_with_its_code(world: World) -> None:
    agent = make_agent(status="deploying")
    build = make_build(agent)
    job = _insert(_nasiko_upload(agent, build.pk, "/nowhere/upload.zip"), agent=agent)

    world.work()

    job.refresh_from_db()
    build.refresh_from_db()
    assert (job.error_code, build.error_code) == ("source_missing",) * 2


def test_done_without_a_result_ends_failed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted = upload()
    known = handlers.get("upload")
    lazy = replace(known, function=lambda ctx, payload: Done(result={"ok": True}))
    monkeypatch.setitem(handlers._handlers, "upload", lazy)

    world.work()

    job, build = job_of(submitted), build_of(submitted)
    assert (job.status, job.error_code) == ("failed", "result_missing")
    assert (build.status, build.error_code) == ("failed", "result_missing")
    assert agent_of(submitted).status == "failed"
    assert not AgentVersion.objects.exists()


def test_a_build_whose_row_is_deleted_ends_failed(world: World) -> None:
    submitted = upload()
    world.interfere("promoted", _delete_builds)

    world.work()

    assert job_of(submitted).error_code == "build_missing"
    assert agent_of(submitted).status == "failed"


def _delete_builds() -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM buildqueue_agentdeployment")
        cursor.execute("DELETE FROM buildqueue_agentbuild")


def test_a_kind_of_the_host_with_an_agent_is_left_to_the_host(world: World) -> None:
    agent = make_agent(status="running")
    payload = {"kind": "probe", "behavior": "fail"}
    make_job(agent=agent, payload=payload)

    world.work()

    agent.refresh_from_db()
    assert agent.status == "running"


def test_a_retry_is_refused_when_its_version_was_taken(world: World) -> None:
    failed = upload(version="1.0.0", program="BUILD_FAILS")
    world.work()
    upload(version="1.0.0")
    world.work()

    with pytest.raises(Refused) as refused:
        verbs.retry(failed.job.pk, actor=ANNA)

    assert (refused.value.code, refused.value.status) == ("version_taken", 409)
    assert refused.value.extra == {"next_version": "1.0.1"}
    assert (job_of(failed).status, build_of(failed).status) == ("failed", "failed")


def test_a_retry_is_refused_without_its_source(world: World) -> None:
    failed = upload(program="BUILD_FAILS")
    world.work()
    sources.delete(failed.build.source_key or "")

    with pytest.raises(Refused) as refused:
        verbs.retry(failed.job.pk, actor=ANNA)

    assert refused.value.code == "source_missing"
    assert job_of(failed).status == "failed"


def test_a_cancelled_upload_can_be_retried(world: World) -> None:
    submitted = upload(version="1.0.0")
    verbs.cancel(submitted.job.pk, actor=ANNA)
    assert build_of(submitted).status == "failed"
    assert build_of(submitted).error_code == "cancelled"

    verbs.retry(submitted.job.pk, actor=ANNA)
    world.work()

    assert (job_of(submitted).status, build_of(submitted).status) == ("done", "success")


def test_cancelling_one_of_two_uploads_keeps_the_agent_deploying(world: World) -> None:
    first, second = upload(version="1.0.0"), upload(version="1.1.0")

    verbs.cancel(first.job.pk, actor=ANNA)

    assert agent_of(second).status == "deploying"
    assert build_of(second).status == "queued"
    world.work()
    assert agent_of(second).status == "running"


def test_a_hook_that_runs_again_changes_nothing(world: World) -> None:
    submitted = upload()
    verbs.cancel(submitted.job.pk, actor=ANNA)
    before = (build_of(submitted).completed_at, agent_of(submitted).status)

    _end(job_of(submitted))

    assert (build_of(submitted).completed_at, agent_of(submitted).status) == before


@pytest.fixture
def connector() -> McpConnector:
    return make_connector()


def _connector_job(connector: McpConnector, status: str, **values: Any) -> BuildJob:
    build = McpConnectorBuild.objects.create(
        connector=connector, owner_id="1", version_tag="v1"
    )
    payload = {"kind": "McpServerUpload", "build_id": str(build.pk)}
    job = make_job(status, connector=connector, payload=payload, **values)
    McpConnectorBuild.objects.filter(pk=build.pk).update(job=job)
    return job


def test_a_connectors_failed_build_fails_the_connector(
    world: World, connector: McpConnector
) -> None:
    job = _connector_job(connector, "failed", error_code="x", error_msg="broken")

    _end(job)

    connector.refresh_from_db()
    build = McpConnectorBuild.objects.get(job=job)
    assert (build.status, build.error_code, build.error_msg) == (
        "failed",
        "x",
        "broken",
    )
    assert connector.build_status == "failed"


def test_a_connectors_good_build_is_what_it_runs(
    world: World, connector: McpConnector
) -> None:
    job = _connector_job(connector, "done")
    build = McpConnectorBuild.objects.get(job=job)
    job.result = {
        "build_id": str(build.pk),
        "image_reference": "local:c/1@sha256:1",
        "service_url": "http://127.0.0.1:1/mcp",
    }

    _end(job)

    connector.refresh_from_db()
    build.refresh_from_db()
    assert (build.status, build.image_tag) == ("success", "local:c/1@sha256:1")
    assert (connector.build_status, connector.url) == (
        "running",
        "http://127.0.0.1:1/mcp",
    )
    later = _connector_job(connector, "failed", error_code="x")
    _end(later)
    connector.refresh_from_db()
    assert connector.build_status == "running"


def test_a_connectors_done_without_result_is_missing(
    world: World, connector: McpConnector
) -> None:
    job = _connector_job(connector, "done")

    with pytest.raises(ResultMissing):
        _end(job)


def test_a_connectors_job_of_unknown_kind_ends_it(
    world: World, connector: McpConnector
) -> None:
    build = McpConnectorBuild.objects.create(
        connector=connector, owner_id="1", version_tag="v1"
    )
    payload = {"kind": "McpServerUpload", "build_id": str(build.pk)}
    job = _insert(payload, agent=None, connector=connector)

    world.work()

    job.refresh_from_db()
    build.refresh_from_db()
    connector.refresh_from_db()
    assert (job.status, build.status) == ("failed", "failed")
    assert connector.build_status == "failed"


def test_a_connectors_retry_makes_it_pending(
    world: World, connector: McpConnector
) -> None:
    job = _connector_job(connector, "failed", error_code="x")
    _end(job)

    verbs.retry(job.pk, actor=ANNA)

    connector.refresh_from_db()
    build = McpConnectorBuild.objects.get(job=job)
    assert (build.status, build.completed_at) == ("pending", None)
    assert connector.build_status == "pending"


def test_the_retry_of_a_deleted_connector_is_refused(
    world: World, connector: McpConnector
) -> None:
    job = _connector_job(connector, "failed", error_code="x")
    McpConnector.objects.update(deleted_at="2020-01-01T00:00:00Z")

    with pytest.raises(Refused) as refused:
        verbs.retry(job.pk, actor=ANNA)

    assert refused.value.code == "connector_deleted"


def test_a_build_is_found_without_its_link_to_the_job(world: World) -> None:
    submitted = upload()
    AgentBuild.objects.filter(pk=submitted.build.pk).update(job=None)

    verbs.cancel(submitted.job.pk, actor=ANNA)

    assert build_of(submitted).status == "failed"
