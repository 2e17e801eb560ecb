"""Does a rollback lead back, forward again, and change nothing when it cannot?"""

from __future__ import annotations

from typing import Any

import pytest

from buildqueue.builds import sources
from buildqueue.builds.retirement import stop_agent
from buildqueue.exceptions import Refused
from buildqueue.models import AgentBuild, AgentVersion
from buildqueue.queue.outcomes import Actor

from .acting import fresh, rollback, running_of, standalone, update, versions_of
from .conftest import ANNA, World, agent_of, build_of, job_of, upload, version_at


@pytest.fixture
def two(world: World) -> Any:
    """Return an agent at 1.0.1 that was at 1.0.0 before."""
    first = upload(version="1.0.0", env={"KEY": "kept"})
    world.work()
    update(first.agent)
    world.work()
    return fresh(first.agent)


def test_back_and_forward_again(world: World, two: Any) -> None:
    back = rollback(two, reason="too slow")
    assert (back.version, back.previous_version) == ("1.0.0", "1.0.1")
    world.work()

    agent = fresh(two)
    assert (job_of(back).status, build_of(back).status) == ("done", "success")
    assert (agent.version, version_at(agent.url)) == ("1.0.0", "1.0.0")
    assert versions_of(agent) == {"1.0.0": "active", "1.0.1": "archived"}
    assert job_of(back).payload["reason"] == "too slow"

    forward = rollback(agent)
    assert forward.version == "1.0.1"
    world.work()

    assert version_at(fresh(two).url) == "1.0.1"
    chain = AgentVersion.objects.get(agent=two, version="1.0.1")
    assert chain.previous_version == "1.0.0"
    assert running_of(two).spec_env == ["KEY"]


def test_a_version_keeps_the_build_that_made_it(world: World, two: Any) -> None:
    made = AgentVersion.objects.get(agent=two, version="1.0.0").build_id

    rollback(two, "1.0.0")
    world.work()

    assert AgentVersion.objects.get(agent=two, version="1.0.0").build_id == made


@pytest.mark.parametrize(
    ("version", "code", "status"),
    [
        ("9.9.9", "version_not_found", 404),
        ("1.0.1", "version_not_eligible", 400),
        ("one", "invalid_version", 400),
    ],
)
def test_a_version_that_cannot_be_gone_back_to_is_refused(
    world: World, two: Any, version: str, code: str, status: int
) -> None:
    with pytest.raises(Refused) as refused:
        rollback(two, version)

    assert (refused.value.code, refused.value.status) == (code, status)
    assert fresh(two).status == "running"


def test_without_an_earlier_version_there_is_nothing_to_go_back_to(
    world: World,
) -> None:
    first = upload()
    world.work()

    with pytest.raises(Refused) as refused:
        rollback(first.agent)

    assert (refused.value.code, refused.value.status) == (
        "nothing_to_roll_back_to",
        409,
    )
    assert agent_of(first).status == "running"


def test_what_is_gone_is_built_again_from_its_source(world: World, two: Any) -> None:
    image = AgentVersion.objects.get(agent=two, version="1.0.0").image_tag
    world.builder.remove(image)

    back = rollback(two)
    world.work()

    assert job_of(back).status == "done"
    assert version_at(fresh(two).url) == "1.0.0"
    assert fresh(two).image == image


def test_without_artifact_and_source_nothing_changes(world: World, two: Any) -> None:
    old = AgentVersion.objects.get(agent=two, version="1.0.0")
    world.builder.remove(old.image_tag)
    sources.delete(AgentBuild.objects.get(pk=old.build_id).source_key or "")
    before = fresh(two)

    back = rollback(two)
    world.work()

    after = fresh(two)
    assert (job_of(back).error_code, build_of(back).phase) == (
        "artifact_missing",
        "verify",
    )
    assert build_of(back).hint
    for name in ("status", "version", "image", "url"):
        assert getattr(after, name) == getattr(before, name), name
    assert version_at(after.url) == "1.0.1"
    assert versions_of(after) == {"1.0.0": "archived", "1.0.1": "active"}


def test_a_rollback_of_somebody_else_uses_the_owners_secrets(
    world: World, two: Any
) -> None:
    back = rollback(two, caller=Actor(label="root", id="99"))
    world.work()

    assert job_of(back).owner_id == build_of(back).triggered_by == "99"
    assert running_of(two).owner_id == two.owner_id
    assert world.runtime.specs[-1].env["KEY"] == "kept"


def test_only_so_many_versions_are_kept_to_go_back_to(
    world: World, settings: Any
) -> None:
    settings.BUILDQUEUE = {**settings.BUILDQUEUE, "KEEP_VERSIONS": 1}
    first = upload(version="1.0.0")
    world.work()
    for _ in range(2):
        update(first.agent)
        world.work()

    rows = AgentVersion.objects.filter(agent=first.agent, can_rollback=True)
    assert list(rows.values_list("version", flat=True)) == ["1.0.1"]


def test_a_standalone_build_waits_and_can_be_deployed(world: World, two: Any) -> None:
    apart = standalone(two, version="2.0.0")
    assert fresh(two).status == "running"
    world.work()

    assert (job_of(apart).status, build_of(apart).status) == ("done", "success")
    assert versions_of(two)["2.0.0"] == "pushed"
    assert (fresh(two).version, version_at(two.url)) == ("1.0.1", "1.0.1")

    rollback(two, "2.0.0")
    world.work()

    assert (fresh(two).version, version_at(two.url)) == ("2.0.0", "2.0.0")
    assert versions_of(two)["1.0.1"] == "archived"


def test_a_failed_standalone_build_leaves_the_agent_and_frees_its_version(
    world: World, two: Any
) -> None:
    apart = standalone(two, version="2.0.0", program="BUILD_FAILS")
    world.work()

    assert (job_of(apart).status, build_of(apart).status) == ("failed", "failed")
    assert "2.0.0" not in versions_of(two)
    assert (fresh(two).status, fresh(two).version) == ("running", "1.0.1")


def test_the_active_version_is_deployed_again_when_it_does_not_run(
    world: World, two: Any
) -> None:
    stop_agent(two, actor=ANNA)
    world.work()
    world.builder.remove(two.image)

    again = rollback(fresh(two), "1.0.1")
    world.work()

    assert job_of(again).status == "done", job_of(again).error_msg
    assert versions_of(two) == {"1.0.0": "archived", "1.0.1": "active"}
    assert version_at(fresh(two).url) == "1.0.1"
