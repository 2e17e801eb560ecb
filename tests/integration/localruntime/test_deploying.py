"""Does a deploy lead the address to a healthy instance, and an update lose no request?"""

from __future__ import annotations

import socket
import threading

import pytest

from buildqueue.backends.base import WorkloadSpec
from buildqueue.exceptions import Rejected
from tests.integration.localruntime.hosts import (
    Host,
    ask,
    connect,
    identity,
    prober,
    read,
)
from tests.support.waiting import wait_until


def test_a_promoted_instance_answers_on_the_workloads_address(host: Host) -> None:
    status = host.deploy(host.agent, "first")

    assert status.active == "first"
    assert ask(host.address(host.agent)).json["version"] == "1"  # type: ignore[index]


def test_the_health_report_holds_the_agents_card(host: Host) -> None:
    host.start(host.agent, "first")

    report = host.healthy(host.agent, "first")

    assert report.card == {"name": "agent", "version": "1"}


def test_an_update_switches_without_a_failed_request(host: Host) -> None:
    host.deploy(host.agent, "first", "1")
    old = identity(host.pid(host.agent, "first"))

    with prober(host.address(host.agent)) as answers:
        host.deploy(host.agent, "second", "2")

    assert {status for status, _ in answers} == {200}, answers
    versions = [version for _, version in answers]
    assert versions == sorted(versions)
    assert versions[-1] == "2"
    assert not old.alive()
    status = host.runtime.status(host.agent)
    assert status is not None
    assert [one.instance_id for one in status.instances] == ["second"]


def test_the_address_is_the_same_after_an_update(host: Host) -> None:
    before = host.deploy(host.agent, "first", "1").address

    after = host.deploy(host.agent, "second", "2").address

    assert before == after


def test_a_kept_alive_connection_follows_the_switch(host: Host) -> None:
    host.deploy(host.agent, "first", "1")
    connection = connect(host.address(host.agent))
    connection.request("GET", "/")
    assert read(connection).json["version"] == "1"  # type: ignore[index]
    before = connection.sock

    host.deploy(host.agent, "second", "2")

    connection.request("GET", "/")
    assert read(connection).json["version"] == "2"  # type: ignore[index]
    assert connection.sock is before
    connection.close()


def test_a_request_in_flight_is_answered_by_the_old_instance(host: Host) -> None:
    host.deploy(host.agent, "first", "1")
    old_port = host.instance(host.agent, "first").port
    connection = connect(host.address(host.agent))
    connection.request("GET", "/hold")
    with prober(host.address(host.agent)) as answers:
        host.start(host.agent, "second", "2")
        assert host.healthy(host.agent, "second").healthy

        released = _release_when_switched(answers, f"http://127.0.0.1:{old_port}")
        host.runtime.promote(host.agent, "second")
        released.join()

    assert read(connection).json == {"version": "1"}
    connection.close()


def test_a_candidate_gets_no_traffic(host: Host) -> None:
    host.deploy(host.agent, "first", "1")

    host.start(host.agent, "second", "2")
    host.healthy(host.agent, "second")

    assert ask(host.address(host.agent)).json["version"] == "1"  # type: ignore[index]


def test_starting_ends_an_older_candidate(host: Host) -> None:
    host.deploy(host.agent, "first", "1")
    left = identity(host.start(host.agent, "second", "2").pid)

    host.start(host.agent, "third", "3")

    assert not left.alive()
    status = host.runtime.status(host.agent)
    assert status is not None
    assert {one.instance_id for one in status.instances} == {"first", "third"}


def test_starting_again_while_it_runs_changes_nothing(host: Host) -> None:
    before = host.start(host.agent, "first")

    assert host.start(host.agent, "first").pid == before.pid


def test_promoting_again_changes_nothing(host: Host) -> None:
    before = host.deploy(host.agent, "first")

    assert host.runtime.promote(host.agent, "first") == before


def test_an_instance_that_has_exited_cannot_be_promoted(host: Host) -> None:
    host.deploy(host.agent, "first", "1")
    host.start(host.agent, "second", "2", MODE="exit")
    wait_until(lambda: host.instance(host.agent, "second").state == "exited")

    with pytest.raises(Rejected) as caught:
        host.runtime.promote(host.agent, "second")

    assert caught.value.code == "instance_not_running"
    assert ask(host.address(host.agent)).json["version"] == "1"  # type: ignore[index]


def test_a_missing_bundle_is_refused(host: Host) -> None:
    spec = WorkloadSpec(
        workload_id=host.agent,
        instance_id="first",
        reference=f"local:{host.agent}/1@sha256:{'0' * 64}",
    )

    with pytest.raises(Rejected) as caught:
        host.runtime.start(spec)

    assert caught.value.code == "artifact_missing"


def test_a_port_in_use_is_stepped_over(host: Host) -> None:
    first = int(host.ports.split("-")[0])
    with socket.socket() as taken:
        for port in range(first, first + 4):
            try:
                taken.bind(("127.0.0.1", port))
                break
            except OSError:
                continue
        taken.listen()
        taken_port = taken.getsockname()[1]

        started = host.start(host.agent, "first")

        assert taken_port not in (
            started.port,
            int(host.address(host.agent).split(":")[2]),
        )
        assert host.healthy(host.agent, "first").healthy


def _release_when_switched(
    answers: list[tuple[int, str]], old: str
) -> threading.Thread:
    def release() -> None:
        wait_until(lambda: answers[-1][1] == "2", message="the switch")
        ask(old, "/go")

    thread = threading.Thread(target=release)
    thread.start()
    return thread
