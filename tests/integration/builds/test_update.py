"""Does an update give the next version, keep what was, and leave the old one on failure?"""

from __future__ import annotations

from typing import Any

import pytest

from buildqueue.builds.retirement import delete_agent
from buildqueue.builds.submission import GitRequest
from buildqueue.exceptions import Refused
from buildqueue.models import AgentVersion
from buildqueue.queue.outcomes import Actor

from .acting import fresh, rollback, running_of, update, versions_of
from .conftest import ANNA, World, agent_of, build_of, job_of, upload, version_at


@pytest.mark.parametrize(
    ("wanted", "version"),
    [
        (None, "1.2.4"),
        ("auto", "1.2.4"),
        ("patch", "1.2.4"),
        ("minor", "1.3.0"),
        ("major", "2.0.0"),
        ("1.9.9", "1.9.9"),
    ],
)
def test_an_update_is_numbered_as_asked(
    world: World, wanted: str | None, version: str
) -> None:
    first = upload(version="1.2.3")
    world.work()

    updated = update(first.agent, version=wanted)
    assert (updated.version, updated.previous_version) == (version, "1.2.3")
    world.work()

    agent = agent_of(first)
    assert (job_of(updated).status, job_of(updated).kind) == ("done", "update")
    assert (agent.version, version_at(agent.url)) == (version, version)
    assert versions_of(agent) == {"1.2.3": "archived", version: "active"}


@pytest.mark.parametrize("wanted", ["1.2.3", "1.2.2", "0.9.9"])
def test_a_version_that_is_not_newer_is_refused_with_the_next(
    world: World, wanted: str
) -> None:
    first = upload(version="1.2.3")
    world.work()

    with pytest.raises(Refused) as refused:
        update(first.agent, version=wanted)

    assert (refused.value.code, refused.value.status) == ("version_not_newer", 409)
    assert refused.value.extra == {"next_version": "1.2.4"}
    assert agent_of(first).status == "running"


def test_a_step_never_meets_a_version_that_is_taken(world: World) -> None:
    first = upload(version="1.0.0")
    world.work()
    update(first.agent)
    world.work()
    rollback(fresh(first.agent))
    world.work()
    assert fresh(first.agent).version == "1.0.0"

    assert update(first.agent).version == "1.0.2"
    assert update(first.agent, version="minor").version == "1.1.0"
    assert update(first.agent, version="minor").version == "1.2.0"


def test_what_is_not_asked_for_again_stays_as_it_was(world: World) -> None:
    from buildqueue.builds.payloads import Spec

    spec = Spec(
        memory_mb=256, cpus=0.5, replicas=2, writable=True, writable_path="/data"
    )
    first = upload(version="1.0.0", ports=[9000], spec=spec, env={"MODEL": "small"})
    world.work()

    update(first.agent, spec=Spec(memory_mb=512), env={"LEVEL": "high"})
    world.work()

    agent, running = agent_of(first), running_of(first.agent)
    assert running.spec_ports == agent.ports == [9000]
    assert running.spec_resources == agent.resources == {"memory_mb": 512, "cpus": 0.5}
    assert (running.replicas, agent.replicas) == (2, 2)
    assert (running.writable, running.writable_path) == (True, "/data")
    assert running.spec_env == ["LEVEL", "MODEL"]
    assert sorted(agent.secrets_env) == ["LEVEL", "MODEL"]
    assert "small" not in str(agent.secrets_env)


def test_a_failed_update_changes_nothing_of_what_runs(world: World) -> None:
    from buildqueue.builds.payloads import Spec

    first = upload(version="1.0.0", env={"MODEL": "small"})
    world.work()
    before = agent_of(first)

    failed = update(
        first.agent, program="UNHEALTHY", env={"NEW": "x"}, spec=Spec(memory_mb=99)
    )
    world.work()

    after = agent_of(first)
    assert job_of(failed).error_code == "health_timeout"
    for name in ("status", "version", "image", "url", "secrets_env", "resources"):
        assert getattr(after, name) == getattr(before, name), name
    assert version_at(after.url) == "1.0.0"
    assert versions_of(after) == {"1.0.0": "active"}


def test_a_failed_update_says_what_and_where_and_what_would_help(world: World) -> None:
    first = upload(version="1.0.0")
    world.work()

    failed = update(first.agent, program="# the port is taken\nEXITS\n")
    world.work()

    build = build_of(failed)
    assert (build.status, build.phase) == ("failed", "health")
    assert (build.error_code, build.exit_code) == ("start_failed", 3)
    assert "the port is taken" in (build.error_msg or "")
    assert build.hint


def test_an_update_without_a_source_wants_a_repository_to_come_from(
    world: World,
) -> None:
    first = upload()
    world.work()

    with pytest.raises(Refused) as refused:
        update(first.agent, source=None)

    assert refused.value.code == "source_required"
    assert agent_of(first).status == "running"


def test_two_sources_are_refused(world: World) -> None:
    first = upload()

    with pytest.raises(Refused) as refused:
        update(
            first.agent,
            source=upload_stream(),
            git=GitRequest(url="https://github.com/a/b"),
        )

    assert refused.value.code == "two_sources"


def test_a_deleted_agent_is_not_updated(world: World) -> None:
    first = upload()
    world.work()
    delete_agent(first.agent, actor=ANNA)

    with pytest.raises(Refused) as refused:
        update(first.agent)

    assert (refused.value.code, refused.value.status) == ("agent_deleted", 409)


def test_the_caller_is_recorded_and_the_owners_secrets_are_used(world: World) -> None:
    first = upload(owner="owner-b", env={"KEY": "of owner b"})
    world.work()

    updated = update(first.agent, caller=Actor(label="root", id="99"))
    world.work()

    assert (job_of(updated).owner_id, build_of(updated).triggered_by) == ("99", "99")
    assert running_of(first.agent).owner_id == "owner-b"
    assert world.runtime.specs[-1].env["KEY"] == "of owner b"


def test_the_changelog_stands_on_the_version(world: World) -> None:
    first = upload()
    world.work()

    updated = update(first.agent, changelog="now with tea")

    row = AgentVersion.objects.get(agent=first.agent, version=updated.version)
    assert row.changelog == "now with tea"


def upload_stream() -> Any:
    from tests.support.zips import zipped

    return zipped({"main.py": ""})
