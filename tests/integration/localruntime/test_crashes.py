"""What is true after a kill, of an instance, its keeper or the daemon?"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from buildqueue.backends.localruntime.identity import (
    ProcessIdentity,
    boot_id,
    entry_of,
)
from tests.integration.localruntime.hosts import Host, ask, identity, prober
from tests.support.waiting import wait_until


def test_a_killed_promoted_instance_is_restarted(host: Host) -> None:
    host.deploy(host.agent, "first")
    before = host.instance(host.agent, "first").pid
    assert before is not None

    identity(before).signal(signal.SIGKILL)

    wait_until(
        lambda: host.instance(host.agent, "first").pid not in (None, before),
        message="a new process",
    )
    wait_until(lambda: ask(host.address(host.agent)).status == 200, message="an answer")
    assert host.instance(host.agent, "first").restarts == 1


def test_a_request_waits_for_an_instance_that_is_being_restarted(host: Host) -> None:
    host.deploy(host.agent, "first")
    address = host.address(host.agent)
    before = host.pid(host.agent, "first")

    identity(before).signal(signal.SIGKILL)

    wait_until(lambda: host.instance(host.agent, "first").pid != before)
    assert ask(address).status == 200


def test_an_instance_that_keeps_dying_is_reported_and_answers_503(host: Host) -> None:
    host.deploy(host.agent, "first")
    # The next start finds a program that exits.
    program = next((host.root / "bundles" / host.agent).glob("*/app/agent.py"))
    program.write_text("raise SystemExit(4)\n")

    identity(host.pid(host.agent, "first")).signal(signal.SIGKILL)

    wait_until(
        lambda: (
            host.instance(host.agent, "first").exit_code == 4
            and host.instance(host.agent, "first").restarts > 1
        )
    )
    reply = ask(host.address(host.agent))
    assert reply.status == 503
    assert reply.json["code"] == "workload_starting"  # type: ignore[index]


def test_a_killed_candidate_is_not_restarted(host: Host) -> None:
    started = host.start(host.agent, "first")

    identity(started.pid).signal(signal.SIGKILL)

    wait_until(lambda: host.instance(host.agent, "first").state == "exited")
    assert host.instance(host.agent, "first").exit_code == -signal.SIGKILL
    assert host.instance(host.agent, "first").restarts == 0


def test_instances_outlive_a_killed_daemon_and_are_found_again(host: Host) -> None:
    host.deploy(host.agent, "first")
    before, address = host.instance(host.agent, "first"), host.address(host.agent)

    host.kill_daemon()
    assert identity(before.pid).alive()
    host.serve()

    assert host.instance(host.agent, "first") == before
    wait_until(lambda: ask(address).status == 200, message="the address to come back")
    assert host.address(host.agent) == address


def test_an_instance_that_died_with_the_daemon_comes_back(host: Host) -> None:
    host.deploy(host.agent, "first")
    before, address = host.instance(host.agent, "first"), host.address(host.agent)
    host.kill_daemon()
    old = identity(before.pid)
    old.signal(signal.SIGKILL)
    wait_until(lambda: not old.alive())

    host.serve()

    wait_until(lambda: ask(address).status == 200, message="the address to come back")
    assert host.instance(host.agent, "first").pid != before.pid


def test_everything_wanted_comes_back_after_a_reboot(host: Host) -> None:
    """A reboot is another boot id in the state, with no process of the old one."""
    host.deploy(host.agent, "first")
    host.start(host.other, "candidate")
    host.runtime.shut_down(keep_instances=False)
    wait_until(lambda: not host.daemons[-1].alive())
    state = host.root / "runtime/state.json"
    state.write_text(state.read_text().replace(boot_id(), "another-boot"))

    host.serve()

    wait_until(lambda: ask(host.address(host.agent)).status == 200)
    assert host.instance(host.other, "candidate").state == "exited"


def test_a_reused_pid_is_never_signalled(host: Host) -> None:
    host.deploy(host.agent, "first")
    host.runtime.shut_down(keep_instances=False)
    wait_until(lambda: not host.daemons[-1].alive())
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    ) as stranger:
        claimed = _claim(host.root / "runtime/state.json", stranger.pid)
        host.serve()
        host.runtime.delete(host.agent)

        assert claimed
        assert stranger.poll() is None
        stranger.communicate(b"\n")


def test_a_killed_keeper_takes_its_instance_along(host: Host) -> None:
    host.deploy(host.agent, "first")
    before = host.pid(host.agent, "first")
    child = identity(before)
    entry = entry_of(before)
    assert entry is not None

    identity(entry.parent).signal(signal.SIGKILL)

    wait_until(lambda: not child.alive(), message="the instance to be gone")
    wait_until(lambda: host.instance(host.agent, "first").pid not in (None, before))


def test_a_switch_cut_short_is_finished_by_the_next_daemon(host: Host) -> None:
    host.deploy(host.agent, "first", "1")
    old = identity(host.pid(host.agent, "first"))
    host.start(host.agent, "second", "2")
    assert host.healthy(host.agent, "second").healthy
    host.kill_daemon()
    # What promote writes before it ends the old one.
    _change(host.root / "runtime/state.json", active="second")

    host.serve()

    wait_until(lambda: not old.alive(), message="the old instance to be ended")
    wait_until(lambda: ask(host.address(host.agent)).json["version"] == "2")  # type: ignore[index]


def test_a_deletion_cut_short_is_finished_by_the_next_daemon(host: Host) -> None:
    host.deploy(host.agent, "first")
    child = identity(host.pid(host.agent, "first"))
    host.kill_daemon()
    _change(host.root / "runtime/state.json", active=None, deleted=True)

    host.serve()

    wait_until(lambda: not child.alive(), message="the instance to be ended")
    assert host.runtime.status(host.agent) is None


def test_the_crash_of_one_leaves_the_proxy_of_others_alone(host: Host) -> None:
    host.deploy(host.agent, "first")
    host.deploy(host.other, "first")

    with prober(host.address(host.other)) as answers:
        identity(host.pid(host.agent, "first")).signal(signal.SIGKILL)
        wait_until(lambda: host.instance(host.agent, "first").restarts == 1)

    assert {status for status, _ in answers} == {200}


def _change(path: Path, **fields: object) -> None:
    state = json.loads(path.read_text())
    workload = state["workloads"][0]
    workload.update(fields)
    for instance in workload["instances"].values():
        instance["promoted"] = True
    path.write_text(json.dumps(state))


def _claim(path: Path, pid: int) -> bool:
    """Let the state name a stranger's pid with an older process's start time."""
    state = json.loads(path.read_text())
    for instance in state["workloads"][0]["instances"].values():
        found = ProcessIdentity.of(pid)
        assert found is not None
        stale = {"pid": pid, "start_time": 1, "boot_id": boot_id()}
        for replica in instance["replicas"]:
            replica.update(keeper=stale, child=stale, state="running")
    path.write_text(json.dumps(state))
    return True
