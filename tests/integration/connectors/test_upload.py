"""Does an uploaded source become a running connector, and a bad one leave what was?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from buildqueue.builds import secrets
from buildqueue.builds.lifecycle.connectoropening import TOKEN
from buildqueue.builds.submission import GitRequest
from buildqueue.executors import base, host
from buildqueue.models import JobEvent, McpConnector, McpConnectorTool
from buildqueue.queue import verbs
from buildqueue.queue.outcomes import Actor
from tests.integration.builds.conftest import ANNA, World, version_at
from tests.support.gitserver import GitServer, git_server

from .conftest import PROGRAM, build_of, connector_of, job_of, submit, tools_of

BERT = Actor(label="bert", id="2")


def environment_in(world: World, connector: McpConnector) -> dict[str, str]:
    """Return the environment with which the connector's instance was started."""
    workload = world.runtime._workloads[str(connector.pk)]
    return dict(workload.instances[str(connector.instance_id)].spec.env)


def test_an_upload_ends_with_a_running_connector(world: World) -> None:
    submitted = submit(version="v1", display_name="My tools")
    assert connector_of(submitted).build_status == "pending"
    assert not connector_of(submitted).is_active

    world.work()

    job, build = job_of(submitted), build_of(submitted)
    connector = connector_of(submitted)
    assert (job.status, job.error_msg, build.status) == ("done", None, "success")
    assert (connector.build_status, connector.is_active) == ("running", True)
    assert connector.display_name == "My tools"
    assert connector.url is not None
    assert connector.url.endswith("/mcp")
    assert version_at(connector.url) == f"v1-{build.pk.hex[:12]}"
    assert connector.container_image_tag == build.image_tag
    assert (connector.host, build.host) == (host.host_id(), host.host_id())
    assert connector.runtime == "fake"
    assert (build.detected_runtime, build.triggered_by) == ("python", "1")
    assert list(base.work_root().iterdir()) == []


def test_its_tools_are_stored(world: World) -> None:
    submitted = submit()

    world.work()

    assert tools_of(submitted) == ["echo", "tell"]
    tool = McpConnectorTool.objects.get(name="echo")
    assert tool.description == "What echo does"
    assert tool.input_schema == {"type": "object"}


def test_every_phase_stands_in_the_timeline(world: World) -> None:
    submitted = submit()

    world.work()

    finished = JobEvent.objects.filter(job=submitted.job, kind="step_finished")
    assert list(finished.order_by("id").values_list("title", flat=True)) == [
        "fetch",
        "verify",
        "build",
        "publish",
        "deploy",
        "health",
        "activate",
        "clean",
    ]


def test_the_same_name_again_replaces_the_server_behind_the_same_address(
    world: World,
) -> None:
    first = submit()
    world.work()
    before = connector_of(first)

    second = submit(program="TOOLS echo sing\n")
    assert second.connector.pk == first.connector.pk
    assert second.job.requires == f"host:{host.host_id()}"
    assert connector_of(second).build_status == "running"
    world.work()

    connector = connector_of(second)
    assert job_of(second).status == "done"
    assert connector.url == before.url
    assert connector.instance_id != before.instance_id
    assert tools_of(second) == ["echo", "sing"]
    assert version_at(connector.url) == f"1.0.0-{second.build.pk.hex[:12]}"


@pytest.mark.parametrize(
    ("program", "code", "phase"),
    [
        ("UNHEALTHY", "health_timeout", "health"),
        ("NO_MCP", "mcp_protocol_error", "health"),
        ("EXITS", "start_failed", "health"),
        ("BUILD_FAILS", "build_failed", "build"),
    ],
)
def test_a_bad_server_leaves_the_old_one_answering(
    world: World, program: str, code: str, phase: str
) -> None:
    first = submit()
    world.work()
    before = connector_of(first)

    broken = submit(program=f"# cannot open its files\n{program}\n")
    world.work()

    job, build = job_of(broken), build_of(broken)
    assert (job.status, job.error_code) == ("failed", code)
    assert (build.status, build.error_code, build.phase) == ("failed", code, phase)
    after = connector_of(broken)
    assert (after.build_status, after.url) == ("running", before.url)
    assert after.instance_id == before.instance_id
    assert version_at(after.url) == f"1.0.0-{first.build.pk.hex[:12]}"
    assert tools_of(broken) == ["echo", "tell"]
    assert running(world, after) == [str(before.instance_id)]


def test_the_reason_of_a_failure_stands_on_the_build(world: World) -> None:
    broken = submit(program="# cannot open its files\nEXITS\n")
    world.work()

    build = build_of(broken)
    assert build.exit_code == 3
    assert "cannot open its files" in (build.logs or "")
    assert "exited with code 3" in (build.error_msg or "")


def test_a_failed_first_build_keeps_connector_and_reason(world: World) -> None:
    submitted = submit(program="UNHEALTHY")

    world.work()

    connector = connector_of(submitted)
    assert (connector.build_status, connector.url) == ("failed", None)
    assert connector.deleted_at is None
    assert not connector.is_active
    assert build_of(submitted).error_code == "health_timeout"
    assert running(world, connector) == []


def test_a_connector_whose_first_build_failed_can_be_uploaded_again(
    world: World,
) -> None:
    submit(program="BUILD_FAILS")
    world.work()

    again = submit()
    assert connector_of(again).build_status == "pending"
    world.work()

    assert connector_of(again).build_status == "running"


def test_a_failed_build_can_be_tried_again(world: World) -> None:
    submitted = submit(program="UNHEALTHY")
    world.work()
    world.builder.programs.update(dict.fromkeys(world.builder.programs, PROGRAM))

    verbs.retry(submitted.job.pk, actor=ANNA)
    assert connector_of(submitted).build_status == "pending"
    world.work()

    assert job_of(submitted).status == "done"
    assert connector_of(submitted).build_status == "running"


def test_the_environment_reaches_the_server_and_stands_nowhere_in_clear(
    world: World,
) -> None:
    submitted = submit(env={"API_KEY": "plain-secret"})
    assert "plain-secret" not in json.dumps(submitted.job.payload)
    world.work()

    connector = connector_of(submitted)
    assert environment_in(world, connector)["API_KEY"] == "plain-secret"
    assert set(connector.build_secrets_env) == {"API_KEY", TOKEN}
    assert "plain-secret" not in json.dumps(connector.build_secrets_env)


def test_the_environment_is_kept_for_the_next_upload(world: World) -> None:
    submit(env={"API_KEY": "plain-secret", "MODE": "old"})
    world.work()
    again = submit(env={"MODE": "new"})
    world.work()

    env = environment_in(world, connector_of(again))
    assert (env["API_KEY"], env["MODE"]) == ("plain-secret", "new")


def test_the_environment_of_a_failed_build_is_not_kept(world: World) -> None:
    submit(env={"MODE": "old"})
    world.work()
    submit(env={"MODE": "new"}, program="UNHEALTHY")
    world.work()
    again = submit()
    world.work()

    assert environment_in(world, connector_of(again))["MODE"] == "old"


def test_each_connector_has_a_token_of_its_own_for_life(world: World) -> None:
    first, other = submit(), submit("others")
    world.work()
    tokens = [
        environment_in(world, connector_of(each))[TOKEN] for each in (first, other)
    ]
    again = submit()
    world.work()

    assert len(bytes.fromhex(tokens[0])) == 32
    assert tokens[0] != tokens[1]
    assert environment_in(world, connector_of(again))[TOKEN] == tokens[0]


def test_the_owners_secrets_are_used_whoever_uploads(world: World) -> None:
    submit(env={"API_KEY": "annas-secret"})
    world.work()

    again = submit(caller=BERT, env={"MODE": "new"})
    world.work()

    connector = connector_of(again)
    assert (again.job.owner_id, build_of(again).triggered_by) == ("2", "2")
    assert (connector.owner_id, build_of(again).owner_id) == ("1", "1")
    assert environment_in(world, connector)["API_KEY"] == "annas-secret"
    stored = connector.build_secrets_env["MODE"]
    assert secrets.decrypt("1", stored) == "new"


def test_a_secret_in_a_tools_description_is_masked(world: World) -> None:
    submitted = submit(env={"WORD": "plainsecret"}, program="TOOLS plainsecret\n")

    world.work()

    assert tools_of(submitted) == ["***"]
    assert "plainsecret" not in json.dumps(job_of(submitted).result)


def running(world: World, connector: McpConnector) -> list[str]:
    """Return the instances of the connector that run."""
    seen = world.runtime.status(str(connector.pk))
    return [one.instance_id for one in seen.instances if one.pid] if seen else []


@pytest.fixture
def server(world: World, settings: Any) -> Iterator[GitServer]:
    """Return a git server that the settings allow."""
    with git_server() as made:
        settings.BUILDQUEUE = {**settings.BUILDQUEUE, **made.settings}
        yield made


def test_a_private_repository_becomes_a_connector_with_the_owners_secret(
    world: World, server: GitServer
) -> None:
    server.require_token("plain-token")
    commit = server.repository("team/tools").commit({"main.py": PROGRAM})
    secrets.set_secret("1", "GIT", "plain-token")
    git = GitRequest(url=server.url("team/tools"), secret="GIT")

    submitted = submit(source=None, git=git, caller=BERT)
    world.work()

    build = build_of(submitted)
    assert (job_of(submitted).error_msg, job_of(submitted).status) == (None, "done")
    assert (build.commit_hash, build.github_url) == (commit, git.url)
    assert build.source_key
    assert connector_of(submitted).build_status == "running"
    assert "plain-token" not in json.dumps(submitted.job.payload)
