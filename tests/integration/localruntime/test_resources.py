"""Is a replica held to the memory, processor and processes it was given?"""

from __future__ import annotations

import http.client
from dataclasses import replace
from pathlib import Path

import pytest

from buildqueue.backends.base import Resources
from buildqueue.backends.localruntime import cgroups
from buildqueue.backends.localruntime.cgroups import Group, Groups
from buildqueue.exceptions import Rejected
from tests.integration.localruntime.hosts import Host, ask
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def groups() -> Groups:
    found = cgroups.detect()
    if not found.controllers:
        pytest.skip("control groups cannot be used here")
    return found


def _deploy(host: Host, **bounds: float) -> str:
    resources = Resources(**bounds)  # type: ignore[arg-type]  # by name
    spec = replace(host.spec(host.agent), resources=resources, instance_id="bounded")
    address = host.lead_to(spec).address
    assert address
    wait_until(lambda: ask(address).status == 200)
    return address


def test_memory_beyond_the_bound_is_not_given(host: Host) -> None:
    address = _deploy(host, memory_mb=128)

    assert ask(address, "/eat/16").status == 200
    try:
        refused = ask(address, "/eat/400").status != 200
    except (OSError, http.client.HTTPException):
        refused = True

    assert refused


def test_an_end_for_memory_is_told_as_such(host: Host, groups: Groups) -> None:
    if "memory" not in groups.controllers:
        pytest.skip("memory is not grouped here")
    address = _deploy(host, memory_mb=64)
    ask(address, "/eat/400")

    wait_until(lambda: host.instance(host.agent, "bounded").restarts == 1)
    host.runtime.stop(host.agent)
    host.run(
        replace(
            host.spec(host.agent, "candidate", env={"MODE": "greedy"}),
            resources=Resources(memory_mb=64),
        )
    )
    report = host.healthy(host.agent, "candidate")

    assert (report.code, report.exit_code) == ("out_of_memory", -9)
    assert "more memory" in report.reason
    found = host.instance(host.agent, "candidate")
    assert found.exit_reason == "out_of_memory"


def test_processes_beyond_the_bound_are_not_made(host: Host, groups: Groups) -> None:
    if "pids" not in groups.controllers:
        pytest.skip("processes are not grouped here")
    address = _deploy(host, processes=20)

    forked = ask(address, "/fork").json["forked"]  # type: ignore[index]

    assert 0 < forked < 20


def test_half_a_processor_is_half_a_processor(host: Host, groups: Groups) -> None:
    if "cpu" not in groups.controllers:
        pytest.skip("processors are not grouped here")
    address = _deploy(host, cpus=0.25)

    used = ask(address, "/burn").json["used"]  # type: ignore[index]

    assert used < 1.5  # of two seconds


def test_a_group_goes_with_its_replica(host: Host, groups: Groups) -> None:
    _deploy(host, memory_mb=128, processes=50)
    key = (str(host.root), host.agent, "bounded", "0")
    made = groups.plan("/".join(key), Resources(memory_mb=128, processes=50))
    assert all(Path(group.folder).is_dir() for group in made)

    host.runtime.stop(host.agent)

    assert made
    assert not any(Path(group.folder).exists() for group in made)


@pytest.mark.parametrize(
    "wrong",
    [
        Resources(memory_mb=1),
        Resources(processes=0),
        Resources(cpus=0),
        Resources(cpus=-1),
        Resources(memory_mb="64"),  # type: ignore[arg-type]
    ],
)
def test_an_impossible_bound_is_refused(host: Host, wrong: Resources) -> None:
    with pytest.raises(Rejected) as refused:
        host.run(replace(host.spec(host.agent), resources=wrong))

    assert refused.value.code == "invalid_resources"


def test_one_group_of_version_2_holds_all_bounds(tmp_path: Path) -> None:
    every = frozenset(cgroups.CONTROLLERS)
    groups = Groups(mount=tmp_path, unified=True, controllers=every)

    (made,) = groups.plan("x", Resources(memory_mb=1, cpus=0.5, processes=7))

    assert Path(made.folder).parent == tmp_path / "buildqueue"
    assert dict(made.settings) == {
        "memory.max": "1048576",
        "?memory.swap.max": "0",
        "?memory.oom.group": "1",
        "cpu.max": "50000 100000",
        "pids.max": "7",
    }


def test_only_what_was_asked_for_and_is_there_is_planned(tmp_path: Path) -> None:
    groups = Groups(mount=tmp_path, controllers=frozenset({"memory", "pids"}))

    made = groups.plan("x", Resources(cpus=1, processes=7))

    assert [Path(group.folder).parts[-3] for group in made] == ["pids"]


def test_ends_for_memory_are_counted_in_both_versions(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "one/memory.oom_control").write_text("under_oom 0\noom_kill 2\n")
    (tmp_path / "two/memory.events").write_text("low 0\noom 4\noom_kill 3\n")

    def counted(name: str) -> int:
        group = Group(folder=str(tmp_path / name), settings=())
        return cgroups.ended_for_memory([group])

    assert (counted("one"), counted("two"), counted("none")) == (2, 3, 0)


def test_where_groups_cannot_be_made_none_is_offered(tmp_path: Path) -> None:
    assert cgroups.detect(tmp_path) == Groups(mount=tmp_path)
