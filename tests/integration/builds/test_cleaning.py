"""Is what nobody needs removed, and nothing that a rollback needs?"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from buildqueue.builds.retirement import delete_agent
from buildqueue.executors import cleaning
from buildqueue.queue import verbs

from .acting import fresh, rollback, standalone, update
from .conftest import ANNA, Crash, World, job_of, upload, version_at


def _clean() -> int:
    return cleaning.remove_unneeded(older_than_seconds=0)


def test_what_a_rollback_needs_is_kept(world: World) -> None:
    made = upload(version="1.0.0")
    world.work()
    update(made.agent)
    standalone(made.agent, version="3.0.0")
    world.work()

    assert _clean() == 0
    back = rollback(fresh(made.agent), "1.0.0")
    world.work()
    on = rollback(fresh(made.agent), "3.0.0")
    world.work()

    assert [job_of(each).status for each in (back, on)] == ["done", "done"]
    assert version_at(fresh(made.agent).url) == "3.0.0"


def test_versions_beyond_those_to_keep_are_removed(world: World, settings: Any) -> None:
    settings.BUILDQUEUE = {**settings.BUILDQUEUE, "KEEP_VERSIONS": 1}
    made = upload(version="1.0.0")
    world.work()
    for _ in range(3):
        update(made.agent)
        world.work()

    assert _clean() == 2
    assert len(world.builder.programs) == 2
    rollback(fresh(made.agent))
    world.work()
    assert version_at(fresh(made.agent).url) == "1.0.2"


def test_what_failed_builds_have_built_is_removed(world: World) -> None:
    made = upload(version="1.0.0")
    world.work()
    update(made.agent, program="UNHEALTHY")
    world.work()

    assert _clean() == 1
    assert version_at(fresh(made.agent).url) == "1.0.0"


def test_nothing_is_removed_while_a_job_of_the_agent_is_open(world: World) -> None:
    made = upload(version="1.0.0")
    world.work()
    update(made.agent, program="UNHEALTHY")
    world.work()
    update(made.agent)

    assert _clean() == 0


def test_nothing_is_left_of_a_deleted_agent(world: World) -> None:
    made = upload(version="1.0.0")
    world.work()
    update(made.agent)
    world.work()

    delete_agent(fresh(made.agent), actor=ANNA)
    world.work()

    assert world.builder.programs == {}


def test_a_deleted_agents_artifacts_are_found_by_the_duty_too(world: World) -> None:
    made = upload(version="1.0.0")
    world.work()
    delete_agent(fresh(made.agent), actor=ANNA)
    for job in made.agent.jobs.filter(kind="agent_delete"):
        verbs.cancel(job.pk, actor=ANNA)

    assert _clean() == 1


def test_the_duty_looks_once_an_hour(world: World, monkeypatch: Any) -> None:
    asked: list[float] = []
    monkeypatch.setattr(cleaning, "_due", {})
    monkeypatch.setattr(cleaning, "remove_unneeded", lambda: asked.append(1.0) or 3)

    assert cleaning.prune_artifacts() == 3
    assert cleaning.prune_artifacts() == 0
    assert len(asked) == 1


def test_the_folder_of_a_killed_upload_is_removed_after_a_day(
    world: World, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(cleaning, "_due", {})
    old, new = (tmp_path / f"buildqueue-upload-{name}" for name in ("old", "new"))
    for folder in (old, new):
        folder.mkdir()
        (folder / "source").write_bytes(b"x")
    os.utime(old, (0, 0))

    assert cleaning.remove_left_uploads() == 1
    assert (old.exists(), new.exists()) == (False, True)


def test_a_clean_up_that_is_killed_is_finished_by_the_next(world: World) -> None:
    made = [upload(name=f"agent-{number}", program="UNHEALTHY") for number in range(3)]
    world.work()
    assert len(world.builder.programs) == len(made)
    removed: list[str] = []

    def die_at_the_second(reference: str) -> None:
        if removed:
            raise Crash
        removed.append(reference)

    kept = world.builder.remove
    world.builder.remove = lambda one: (die_at_the_second(one), kept(one))[1]  # type: ignore[method-assign]
    with pytest.raises(Crash):
        _clean()
    world.builder.remove = kept  # type: ignore[method-assign]

    assert _clean() == len(made) - 1
    assert world.builder.programs == {}
