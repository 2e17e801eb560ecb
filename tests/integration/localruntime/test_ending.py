"""Is an ended instance gone, with all that it started, and does it stay so?"""

from __future__ import annotations

import json
import signal
import socket
from urllib.parse import urlsplit

import pytest

from buildqueue.backends.localruntime.identity import ProcessIdentity, processes
from buildqueue.backends.localruntime.ports import can_bind
from buildqueue.exceptions import Rejected, Unavailable
from tests.integration.localruntime.hosts import Host, ask, identity, known
from tests.support.waiting import wait_until


def test_stop_keeps_the_address_and_says_that_it_is_stopped(host: Host) -> None:
    host.deploy(host.agent, "first")
    child = identity(host.pid(host.agent, "first"))
    address = host.address(host.agent)

    host.runtime.stop(host.agent)

    assert not child.alive()
    reply = ask(address)
    assert (reply.status, reply.json["code"]) == (503, "workload_stopped")  # type: ignore[index]
    assert host.address(host.agent) == address


def test_a_stopped_workload_stays_stopped_with_the_next_daemon(host: Host) -> None:
    host.deploy(host.agent, "first")
    host.runtime.stop(host.agent)
    host.kill_daemon()

    host.serve()

    assert host.instance(host.agent, "first").state == "stopped"
    assert ask(host.address(host.agent)).status == 503


def test_a_stopped_workload_starts_again_on_its_address(host: Host) -> None:
    host.deploy(host.agent, "first")
    address = host.address(host.agent)
    host.runtime.stop(host.agent)

    host.deploy(host.agent, "first")

    assert host.address(host.agent) == address
    assert ask(address).status == 200


def test_stopping_the_active_instance_stops_the_workload(host: Host) -> None:
    host.deploy(host.agent, "first")

    host.runtime.stop_instance(host.agent, "first")

    assert host.instance(host.agent, "first").state == "stopped"
    assert ask(host.address(host.agent)).status == 503


def test_delete_leaves_no_process_and_refuses_a_start(host: Host) -> None:
    host.deploy(host.agent, "first")
    host.start(host.agent, "second")
    alive = [process for process in host.watched if process.alive()]
    assert len(alive) == 2

    host.runtime.delete(host.agent)

    assert not any(process.alive() for process in alive)
    assert host.runtime.status(host.agent) is None
    with pytest.raises(Rejected) as caught:
        host.start(host.agent, "third")
    assert caught.value.code == "workload_deleted"


def test_a_deleted_workload_stays_deleted_with_the_next_daemon(host: Host) -> None:
    host.deploy(host.agent, "first")
    host.runtime.delete(host.agent)
    host.kill_daemon()
    host.serve()

    with pytest.raises(Rejected) as caught:
        host.start(host.agent, "second")

    assert caught.value.code == "workload_deleted"


def test_ending_what_is_absent_is_fine(host: Host) -> None:
    host.runtime.stop("nobody")
    host.runtime.stop_instance("nobody", "nothing")
    host.runtime.delete("nobody")
    host.runtime.delete("nobody")

    assert host.runtime.status("nobody") is None


def test_a_child_in_a_session_of_its_own_is_ended_too(host: Host) -> None:
    host.deploy(host.agent, "first", "escapee", MODE="escape")
    before = _escaped("escapee")
    assert before

    host.runtime.delete(host.agent)

    assert not any(process.alive() for process in before)


def test_a_child_that_escaped_is_ended_when_its_instance_dies(host: Host) -> None:
    started = host.start(host.agent, "first", "stray", MODE="escape")
    assert host.healthy(host.agent, "first").healthy
    escaped = _escaped("stray")
    assert escaped

    identity(started.pid).signal(signal.SIGKILL)

    wait_until(lambda: not any(process.alive() for process in escaped))


def test_an_instance_that_ignores_term_is_killed(host: Host) -> None:
    host.deploy(host.agent, "first", MODE="stubborn")
    child = identity(host.pid(host.agent, "first"))

    host.runtime.stop(host.agent)

    assert not child.alive()


def test_an_instance_gets_term_and_may_end_well(host: Host) -> None:
    host.deploy(host.agent, "first", MODE="polite")

    host.runtime.stop(host.agent)

    assert host.runtime.logs(host.agent, "first", 1) == ["goodbye"]
    assert host.instance(host.agent, "first").exit_code == 0


def test_no_env_is_kept_of_an_instance_that_was_ended(host: Host) -> None:
    host.deploy(host.agent, "first", SECRET="open-sesame")
    assert _sealed(host) != [""]

    host.runtime.stop(host.agent)

    assert _sealed(host) == [""]


def _sealed(host: Host) -> list[str]:
    workloads = json.loads((host.root / "runtime/state.json").read_text())["workloads"]
    every = [one for each in workloads for one in each["instances"].values()]
    return [one["sealed_env"] for one in every]


def _escaped(version: str) -> list[ProcessIdentity]:
    mark = f"# {version}".encode()
    found = []
    for entry in processes():
        try:
            with open(f"/proc/{entry.pid}/cmdline", "rb") as file:
                command = file.read()
        except OSError:
            continue
        if mark in command and (one := ProcessIdentity.of(entry.pid)):
            found.append(one)
    return found


def test_an_address_that_another_program_took_is_told_at_the_switch(
    host: Host,
) -> None:
    host.deploy(host.agent, "first")
    port = known(urlsplit(host.address(host.agent)).port)
    host.runtime.shut_down(keep_instances=False)
    wait_until(lambda: can_bind(port), message=port)
    with socket.create_server(("127.0.0.1", port)):
        host.serve()
        host.start(host.agent, "second", "2")
        host.healthy(host.agent, "second")
        with pytest.raises(Unavailable) as told:
            host.runtime.promote(host.agent, "second")

    assert told.value.code == "address_taken"
    assert str(port) in str(told.value)
    host.runtime.promote(host.agent, "second")
    assert ask(host.address(host.agent)).json["version"] == "2"  # type: ignore[index]
