"""Does an uploaded connector answer MCP on the real local backend?

Real processes, the real proxy, and the official client against the stored URL.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from buildqueue.backends.localruntime.client import LocalRuntime
from buildqueue.builds.connectors.refreshing import refresh_tools
from buildqueue.builds.connectors.retirement import delete_connector
from buildqueue.builds.lifecycle.connectoropening import TOKEN
from buildqueue.executors.reconcile import Counts, reconcile_host
from buildqueue.models import BuildJob, LogChunk, McpConnector
from tests.integration.builds.conftest import ANNA, World
from tests.support.mcpserver import call, real_zip, server_zip, tools_at

from .conftest import (
    ConnectorSubmission,
    build_of,
    connector_of,
    job_of,
    submit,
    tools_of,
)

Local = tuple[World, LocalRuntime]


def _told(connector: McpConnector) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(call(connector.url or "", "tell"))
    return found


def _running(runtime: LocalRuntime, found: ConnectorSubmission) -> list[str]:
    seen = runtime.status(str(found.connector.pk))
    return [one.instance_id for one in seen.instances if one.pid] if seen else []


def test_a_connector_is_built_deployed_replaced_refreshed_and_removed(
    local: Local,
) -> None:
    worker, runtime = local
    first = submit(
        source=server_zip(printed=["API_KEY"]), env={"API_KEY": "plain-secret"}
    )
    worker.work()

    assert (job_of(first).error_msg, job_of(first).status) == (None, "done")
    connector = connector_of(first)
    assert connector.build_status == "running"
    assert connector.url is not None
    assert tools_at(connector.url) == tools_of(first) == ["echo", "tell"]
    env = _told(connector)["env"]
    assert env["API_KEY"] == "plain-secret"
    assert len(bytes.fromhex(env[TOKEN])) == 32
    stored = json.dumps([job_of(first).payload, job_of(first).result])
    assert "plain-secret" not in stored + str(build_of(first).logs)

    second = submit(source=server_zip(version="2.0.0", tools=["sing", "tell"]))
    worker.work()
    assert job_of(second).status == "done"
    assert connector_of(second).url == connector.url
    assert tools_of(second) == ["sing", "tell"]
    assert _told(connector)["version"] == "2.0.0"
    assert _told(connector)["env"][TOKEN] == env[TOKEN]

    McpConnector.objects.update(url="http://127.0.0.1:1/mcp")
    assert reconcile_host() == Counts(corrected=1)
    assert connector_of(second).url == connector.url

    second.connector.tools.all().delete()
    refresh_tools(second.connector, actor=ANNA)
    worker.work()
    assert tools_of(second) == ["sing", "tell"]

    delete_connector(second.connector, actor=ANNA)
    worker.work()
    assert runtime.workloads() == []


@pytest.mark.parametrize(
    ("manner", "code"),
    [
        ("crashes", "start_failed"),
        ("silent", "health_timeout"),
        ("plain", "mcp_protocol_error"),
    ],
)
def test_a_server_that_is_not_ready_leaves_no_process_and_the_old_one_answering(
    local: Local, settings: Any, manner: str, code: str
) -> None:
    worker, runtime = local
    first = submit(source=server_zip())
    worker.work()
    told = _told(connector_of(first))
    if manner == "silent":
        settings.BUILDQUEUE = {**settings.BUILDQUEUE, "HEALTH_TRIES": 3}

    broken = submit(
        source=server_zip(version="2.0.0", manner=manner, printed=["API_KEY"]),
        env={"API_KEY": "plain-secret"},
    )
    worker.work()

    build = build_of(broken)
    assert (job_of(broken).status, job_of(broken).error_code) == ("failed", code)
    assert (build.phase, build.error_code) == ("health", code)
    assert "plain-secret" not in str(build.logs) + str(build.error_msg)
    connector = connector_of(broken)
    assert _told(connector)["pid"] == told["pid"]
    assert _running(runtime, broken) == [str(connector.instance_id)]
    assert not BuildJob.objects.filter(completed_at=None).exists()


def test_a_first_server_that_is_not_ready_leaves_nothing_that_runs(
    local: Local,
) -> None:
    worker, runtime = local
    broken = submit(source=server_zip(manner="crashes"))

    worker.work()

    assert connector_of(broken).build_status == "failed"
    assert build_of(broken).exit_code == 1
    assert "cannot open its files" in (build_of(broken).logs or "")
    assert _running(runtime, broken) == []
    assert not LogChunk.objects.exists()  # the worker's pump writes them, not the job


def test_a_slow_server_is_waited_for(local: Local) -> None:
    worker, _ = local
    submitted = submit(source=server_zip(manner="slow"))

    worker.work()

    assert job_of(submitted).status == "done"


@pytest.mark.slow
def test_a_server_that_installs_the_official_package_is_deployed(local: Local) -> None:
    worker, _ = local
    submitted = submit(source=real_zip())

    worker.work()

    assert (job_of(submitted).error_msg, job_of(submitted).status) == (None, "done")
    connector = connector_of(submitted)
    assert tools_of(submitted) == ["add"]
    assert call(connector.url or "", "add", {"a": 2, "b": 3}) == "5"
