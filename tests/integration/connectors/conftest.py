"""What do the connectors' tests start from? Fake backends and a fake probe, or real ones.

What a fake server says is written in its program: `TOOLS a b` are its tools, `UNHEALTHY`
is never ready, `NO_MCP` speaks something else, the rest is as for agents.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from buildqueue.backends import mcpprobe
from buildqueue.backends.base import InstanceStatus, Runtime
from buildqueue.backends.localruntime.client import LocalRuntime
from buildqueue.backends.mcpprobe import Tool
from buildqueue.builds.connectors.submission import (
    ConnectorSubmission,
    submit_connector,
)
from buildqueue.exceptions import BackendError, Rejected
from buildqueue.executors import host
from buildqueue.models import BuildJob, McpConnector, McpConnectorBuild
from tests.integration.builds.conftest import ANNA, World
from tests.integration.builds.conftest import world as fakes
from tests.support.fakes import FakeBuilder, FakeRuntime
from tests.support.localhost import local_backend
from tests.support.processes import RunningWorker, Workers
from tests.support.waiting import wait_until
from tests.support.zips import zipped

__all__ = ["fakes"]

PROGRAM = "# hello\nTOOLS echo tell\n"


@pytest.fixture
def world(fakes: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return a world of fakes in which servers speak MCP by their program."""

    def wait_ready(
        runtime: Runtime, workload_id: str, instance_id: str, **options: Any
    ) -> tuple[Tool, ...]:
        fakes.runtime.at("health")
        seen = runtime.status(workload_id)
        found = {one.instance_id: one for one in seen.instances} if seen else {}
        return ask_instance(found[instance_id])

    def ask_instance(instance: InstanceStatus, **options: Any) -> tuple[Tool, ...]:
        if instance.state == "exited":
            raise Rejected("start_failed", "it exited with code 3", exit_code=3)
        program = program_of(fakes, instance.instance_id)
        if "UNHEALTHY" in program:
            raise Rejected("health_timeout", "not ready after 3 tries")
        if "NO_MCP" in program:
            raise Rejected("mcp_protocol_error", "/mcp does not speak MCP")
        words = next(
            (one for one in program.splitlines() if one.startswith("TOOLS")), ""
        ).split()[1:]
        return tuple(
            Tool(
                name=word,
                title=None,
                description=f"What {word} does",
                input_schema={"type": "object"},
            )
            for word in words
        )

    monkeypatch.setattr(mcpprobe, "wait_ready", wait_ready)
    monkeypatch.setattr(mcpprobe, "ask_instance", ask_instance)
    return fakes


def program_of(world: World, instance_id: str) -> str:
    """Return the program that a fake instance runs."""
    for workload in world.runtime._workloads.values():
        if instance_id in workload.instances:
            return world.builder.programs[
                workload.instances[instance_id].spec.reference
            ]
    raise AssertionError(f"no instance {instance_id}")


@pytest.fixture
def local(
    committed: None, tmp_path: Path, settings: Any
) -> Iterator[tuple[World, LocalRuntime]]:
    """Return a worker whose backends are the real local ones."""
    settings.BUILDQUEUE = {
        **settings.BUILDQUEUE,
        "DATA_DIR": tmp_path,
        "LOCAL_ALLOW_UNCONFINED": True,
        "BACKOFF_BASE_SECONDS": 0.001,
        "HEALTH_TRIES": 300,
        "HEALTH_INTERVAL_SECONDS": 0.2,
    }
    builder = FakeBuilder()
    with local_backend(tmp_path / "local") as (_, runtime):
        host.mark_in_use()
        yield World(builder=builder, runtime=FakeRuntime(builder)), runtime


class Here:
    """One host's folder, with the workers and the local runtime on it."""

    def __init__(self, workers: Workers, folder: Path) -> None:
        self._workers, self._folder = workers, folder

    def worker(self) -> RunningWorker:
        """Start a worker of this host."""
        return self._workers.start(
            data_dir=str(self._folder),
            local_allow_unconfined=True,
            health_tries=600,
            health_interval_seconds=0.3,
            host_services=["buildqueue.executors.services.local_runtime_in_use"],
            capabilities=["buildqueue.executors.services.capabilities"],
            duties=["buildqueue.executors.reconcile.reconcile_host"],
        )

    @property
    def runtime(self) -> LocalRuntime:
        """Return the host's runtime."""
        return LocalRuntime(host.local_root())


@pytest.fixture
def here(committed: None, tmp_path: Path, settings: Any) -> Iterator[Here]:
    """Return a host on which real workers can be started."""
    settings.BUILDQUEUE = {**settings.BUILDQUEUE, "DATA_DIR": tmp_path}
    workers = Workers(tmp_path)
    made = Here(workers, tmp_path)
    try:
        yield made
    finally:
        workers.end()  # a worker would start the runtime again
        if host.in_use():
            _end_runtime(made.runtime)
            shutil.rmtree(host.local_root())


def _end_runtime(runtime: LocalRuntime) -> None:
    with suppress(BackendError):
        for workload in runtime.workloads():
            runtime.delete(workload.workload_id)
        runtime.shut_down(keep_instances=False)
    wait_until(lambda: not _answers(runtime), message="the runtime does not end")


def _answers(runtime: LocalRuntime) -> bool:
    try:
        runtime.ping()
    except BackendError:
        return False
    return True


def submit(
    name: str = "tools",
    *,
    owner: str = "1",
    program: str = PROGRAM,
    files: dict[str, str] | None = None,
    **options: Any,
) -> ConnectorSubmission:
    """Submit a small connector."""
    options.setdefault("caller", ANNA)
    options.setdefault("source", zipped({"main.py": program, **(files or {})}))
    return submit_connector(owner_id=owner, name=name, **options)


def job_of(found: ConnectorSubmission) -> BuildJob:
    """Return the job as it is now."""
    return BuildJob.objects.get(pk=found.job.pk)


def build_of(found: ConnectorSubmission) -> McpConnectorBuild:
    """Return the build as it is now."""
    return McpConnectorBuild.objects.get(pk=found.build.pk)


def connector_of(found: ConnectorSubmission) -> McpConnector:
    """Return the connector as it is now."""
    return McpConnector.objects.get(pk=found.connector.pk)


def tools_of(found: ConnectorSubmission) -> list[str]:
    """Return the names of the stored tools."""
    rows = connector_of(found).tools.order_by("name")
    return list(rows.values_list("name", flat=True))
