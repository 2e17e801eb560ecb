"""Where may a control group be made, what is written into it, and what read from it?

The layouts are folders of the test; what the kernel does is tried where it lets us.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from buildqueue.queue.limits import Limits
from buildqueue.worker import cgroups, hierarchies
from buildqueue.worker.cgroups import Group, Place

MIB = 1024 * 1024
ALL = Limits(memory_bytes=64 * MIB, processes=5, cpu_seconds=10)
V1 = {"memory": "rw,memory", "pids": "rw,pids", "cpuacct": "rw,cpu,cpuacct"}


def proc(folder: Path, *, mounts: list[str], groups: list[str]) -> Path:
    made = folder / "proc"
    made.mkdir()
    (made / "mountinfo").write_text("\n".join(mounts) + "\n")
    (made / "cgroup").write_text("\n".join(groups) + "\n")
    return made


def mount(point: Path, kind: str, options: str, root: str = "/") -> str:
    return f"31 23 0:28 {root} {point} rw,relatime shared:9 - {kind} {kind} {options}"


def test_the_hierarchies_of_version_1_are_found_each_for_itself(
    tmp_path: Path,
) -> None:
    mounts = [mount(tmp_path / n, "cgroup", options) for n, options in V1.items()]
    groups = ["4:memory:/a/b", "8:pids:/", "2:cpu,cpuacct:/c", "1:name=systemd:/"]
    found = hierarchies.own_places(proc(tmp_path, mounts=mounts, groups=groups))
    assert found == {
        "memory": Place(tmp_path / "memory/a/b", unified=False),
        "pids": Place(tmp_path / "pids", unified=False),
        "cpuacct": Place(tmp_path / "cpuacct/c", unified=False),
    }


def test_in_a_container_the_path_is_taken_from_where_it_is_mounted(
    tmp_path: Path,
) -> None:
    mounts = [mount(tmp_path / "m", "cgroup", "rw,memory", root="/docker/1f")]
    layout = proc(tmp_path, mounts=mounts, groups=["4:memory:/docker/1f/x"])
    assert hierarchies.own_places(layout)["memory"].folder == tmp_path / "m/x"


def unified(folder: Path, *, given: str = "", procs: str = "") -> tuple[Path, Path]:
    """Make a group of version 2 in which this process is; return it and its proc."""
    own = folder / "cg" / "service"
    own.mkdir(parents=True)
    (own / "cgroup.controllers").write_text("cpu memory pids\n")
    (own / "cgroup.subtree_control").write_text(given)
    (own / "cgroup.procs").write_text(procs or f"{os.getpid()}\n")
    mounts = [mount(folder / "cg", "cgroup2", "rw")]
    return own, proc(folder, mounts=mounts, groups=["0::/service"])


def test_without_controllers_for_those_below_no_group_can_be_made(
    tmp_path: Path,
) -> None:
    _, layout = unified(tmp_path)
    assert hierarchies.own_places(layout) == {}


def test_a_worker_alone_in_its_group_makes_room_for_groups_beside_it(
    tmp_path: Path,
) -> None:
    own, layout = unified(tmp_path)
    hierarchies.settle(layout)
    assert (own / hierarchies.LEAF / "cgroup.procs").read_text() == "0"
    assert (own / "cgroup.subtree_control").read_text() == "+memory +pids"
    (own / "cgroup.subtree_control").write_text("memory pids\n")
    (layout / "cgroup").write_text(f"0::/service/{hierarchies.LEAF}\n")
    places = hierarchies.own_places(layout)
    assert {place.folder for place in places.values()} == {own}
    assert set(places) == set(cgroups.CONTROLLERS)


def test_a_group_with_other_processes_is_left_alone(tmp_path: Path) -> None:
    own, layout = unified(tmp_path, procs=f"1\n{os.getpid()}\n")
    hierarchies.settle(layout)
    assert (own / "cgroup.subtree_control").read_text() == ""
    assert not (own / hierarchies.LEAF).exists()


def test_what_a_killed_worker_left_is_removed_when_it_is_old(tmp_path: Path) -> None:
    own, layout = unified(tmp_path, given="memory pids")
    old, fresh = own / "buildqueue-old", own / "buildqueue-fresh"
    for folder in (old, fresh, own / "another"):
        folder.mkdir()
    os.utime(old, (0, 0))
    os.utime(own / "another", (0, 0))
    hierarchies.settle(layout)
    assert not old.exists()
    assert fresh.exists()
    assert (own / "another").exists()


def test_a_group_of_version_2_is_one_folder_for_all(tmp_path: Path) -> None:
    place = Place(tmp_path, unified=True)
    group, hindrance = cgroups.enclose(
        ALL, "x", dict.fromkeys(cgroups.CONTROLLERS, place)
    )
    folder = tmp_path / "buildqueue-x"
    assert hindrance == ""
    assert set(group.folders.values()) == {str(folder)}
    assert (folder / "memory.max").read_text() == str(64 * MIB)
    assert (folder / "memory.oom.group").read_text() == "1"
    assert (folder / "pids.max").read_text() == "5"
    assert (folder / "cgroup.procs").read_text() == "0"
    assert not (folder / "memory.swap.max").exists()


def test_groups_of_version_1_are_a_folder_each(tmp_path: Path) -> None:
    for name in V1:
        (tmp_path / name).mkdir()
    places = {name: Place(tmp_path / name, unified=False) for name in V1}
    group, _ = cgroups.enclose(ALL, "x", places)
    limit = tmp_path / "memory/buildqueue-x/memory.limit_in_bytes"
    assert limit.read_text() == str(64 * MIB)
    assert (tmp_path / "pids/buildqueue-x/pids.max").read_text() == "5"
    assert set(group.folders) == set(V1)


def test_only_what_is_limited_is_asked_of_the_kernel(tmp_path: Path) -> None:
    places = dict.fromkeys(cgroups.CONTROLLERS, Place(tmp_path, unified=True))
    group, _ = cgroups.enclose(Limits(processes=3), "x", places)
    assert set(group.folders) == {"pids"}


def test_one_controller_that_cannot_be_had_does_not_cost_the_others(
    tmp_path: Path,
) -> None:
    (tmp_path / "pids").mkdir()
    places = {
        "memory": Place(tmp_path / "nowhere", unified=False),
        "pids": Place(tmp_path / "pids", unified=False),
    }
    group, hindrance = cgroups.enclose(ALL, "x", places)
    assert set(group.folders) == {"pids"}
    assert "memory: " in hindrance
    assert "cpuacct: no such control group" in hindrance


@pytest.mark.parametrize("of_two", [False, True])
def test_what_a_group_counts_is_read(tmp_path: Path, of_two: bool) -> None:
    told = {
        "memory.events.local": "low 0\noom 2\noom_kill 3\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        "pids.events": "max 4\n",
        "memory.peak": "1024\n",
        "memory.max_usage_in_bytes": "1024\n",
        "cpu.stat": "usage_usec 1500000\nuser_usec 7\n",
        "cpuacct.usage": "1500000000\n",
    }
    for name, text in told.items():
        (tmp_path / name).write_text(text)
    folders = dict.fromkeys(cgroups.CONTROLLERS, str(tmp_path))
    group = Group(folders=folders, unified=cgroups.CONTROLLERS if of_two else ())
    assert (group.ooms(), group.refused_forks()) == (3, 4)
    assert (group.peak_memory_bytes(), group.cpu_seconds()) == (1024, 1.5)


def test_no_group_counts_nothing(tmp_path: Path) -> None:
    for group in (Group(), Group(folders={"memory": str(tmp_path / "gone")})):
        assert (group.ooms(), group.refused_forks()) == (0, 0)
        assert (group.peak_memory_bytes(), group.cpu_seconds()) == (None, None)
        group.remove()


PROGRAM = """
import json, os, signal, subprocess, sys
from buildqueue.queue.limits import Limits
from buildqueue.worker import cgroups, hierarchies
limits = Limits(memory_bytes=64 * 1024 * 1024)
group, why = cgroups.enclose(limits, sys.argv[1], hierarchies.own_places())
hold = "held = b'x' * (int(input()) * 1024 * 1024); input()"
child = subprocess.Popen([sys.executable, "-S", "-c", hold], stdin=subprocess.PIPE)
if sys.argv[2] == "kill":
    child.kill()
else:
    child.stdin.write(b"200\\n")
    child.stdin.flush()
code = child.wait()
print(json.dumps([group.folders, code, group.ooms()]))
"""


@pytest.mark.parametrize(("way", "ooms"), [("kill", 0), ("eat", 1)])
def test_the_kernel_tells_a_kill_for_memory_from_any_other(way: str, ooms: int) -> None:
    name = f"test-{uuid4()}"
    place = hierarchies.own_places().get("memory")
    if place is None or not os.access(place.folder, os.W_OK):
        pytest.skip("no memory control group can be made here")
    try:
        command = [sys.executable, "-c", PROGRAM, name, way]
        told = subprocess.run(command, capture_output=True, check=True, text=True)
    finally:
        folder = place.folder / (cgroups.PREFIX + name)
        Group(folders={"memory": str(folder)}).remove()
    folders, code, counted = json.loads(told.stdout)
    assert set(folders) == {"memory"}
    assert (code, counted) == (-9, ooms)
    assert not folder.exists()
