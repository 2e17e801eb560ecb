"""Do the replicas of an instance share its work, come back, and go without a trace?"""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import replace

import pytest

from buildqueue.backends.localruntime.identity import boot_id
from buildqueue.exceptions import Rejected
from tests.integration.localruntime.hosts import (
    Host,
    ask,
    connect,
    identity,
    known,
    prober,
    read,
)
from tests.support.waiting import wait_until


def _pids(host: Host) -> list[int]:
    found = host.instance(host.agent, "first").replicas
    return [replica.pid for replica in found if replica.pid]


def _ports(host: Host) -> set[int]:
    found = host.instance(host.agent, "first").replicas
    return {known(replica.port) for replica in found}


def _answering(host: Host, requests: int = 12) -> Counter[int]:
    """Return which ports answer: in namespaces all have the same pid."""
    replies = [ask(host.address(host.agent)) for _ in range(requests)]
    assert {reply.status for reply in replies} == {200}
    return Counter(int(reply.json["port"]) for reply in replies)  # type: ignore[index]


def _deploy(host: Host, replicas: int) -> None:
    host.lead_to(replace(host.spec(host.agent), replicas=replicas))
    wait_until(lambda: len(_answering(host)) == replicas)


def test_replicas_have_a_process_and_a_port_of_their_own(host: Host) -> None:
    _deploy(host, 3)

    replicas = host.instance(host.agent, "first").replicas
    assert [replica.number for replica in replicas] == [0, 1, 2]
    assert len({replica.pid for replica in replicas}) == 3
    assert len({replica.port for replica in replicas}) == 3


def test_requests_go_to_all_replicas_alike(host: Host) -> None:
    _deploy(host, 3)

    assert sorted(_answering(host, 12).values()) == [4, 4, 4]


def test_one_connection_visits_all_replicas(host: Host) -> None:
    _deploy(host, 2)
    connection = connect(host.address(host.agent))

    ports = set()
    for _ in range(4):
        connection.request("GET", "/")
        ports.add(read(connection).json["port"])  # type: ignore[index]
    connection.close()

    assert ports == _ports(host)


def test_no_request_fails_while_it_is_scaled(host: Host) -> None:
    _deploy(host, 1)

    with prober(host.address(host.agent)) as answers:
        host.runtime.scale(host.agent, 4)
        wait_until(lambda: len(_answering(host)) == 4)
        host.runtime.scale(host.agent, 2)
        host.runtime.scale(host.agent, 1)

    assert {status for status, _ in answers} == {200}
    assert len(_answering(host)) == 1


def test_a_request_under_way_is_answered_by_the_replica_that_is_to_end(
    host: Host,
) -> None:
    _deploy(host, 2)
    address = host.address(host.agent)
    leaving = known(host.instance(host.agent, "first").replicas[1].port)
    held = [connect(address) for _ in range(2)]
    for connection in held:
        connection.request("GET", "/hold")

    with prober(address):
        wait_until(lambda: host.runtime.ping())
        ask(f"http://127.0.0.1:{leaving}", "/go")
        ask(f"http://127.0.0.1:{known(host.instance(host.agent, 'first').port)}", "/go")
        host.runtime.scale(host.agent, 1)

    assert [read(connection).status for connection in held] == [200, 200]
    for connection in held:
        connection.close()


def test_a_replica_that_goes_leaves_neither_process_nor_folder(host: Host) -> None:
    _deploy(host, 3)
    gone = [identity(pid) for pid in _pids(host)[1:]]

    host.runtime.scale(host.agent, 1)

    assert not any(one.alive() for one in gone)
    scratch = host.root / "scratch" / host.agent / "first"
    assert [folder.name for folder in scratch.iterdir()] == ["0"]


def test_the_others_answer_while_one_is_restarted(host: Host) -> None:
    _deploy(host, 2)
    first, second = _pids(host)

    identity(first).signal(signal.SIGKILL)
    wait_until(lambda: first not in _pids(host))
    with prober(host.address(host.agent)) as answers:
        wait_until(lambda: len(_pids(host)) == 2)

    assert {status for status, _ in answers} == {200}
    assert second in _pids(host)
    found = host.instance(host.agent, "first")
    assert [replica.restarts for replica in found.replicas] == [1, 0]
    assert (found.restarts, found.replicas_running) == (1, 2)


def test_health_waits_for_every_replica(host: Host) -> None:
    spec = replace(host.spec(host.agent, env={"MODE": "absent"}), replicas=2)
    host.run(spec)

    report = host.healthy(host.agent, "first", tries=8)

    assert (report.healthy, report.code) == (False, "health_timeout")
    assert "replica 0" in report.reason


def test_a_candidate_of_which_a_replica_exits_is_not_healthy(host: Host) -> None:
    host.run(replace(host.spec(host.agent, env={"MODE": "exit"}), replicas=2))

    report = host.healthy(host.agent, "first")

    assert (report.code, report.exit_code) == ("start_failed", 3)
    assert "it will not work" in report.reason


def test_all_replicas_come_back_after_a_reboot_at_the_same_address(host: Host) -> None:
    """A reboot is another boot id in the state, with no process of the old one."""
    host.lead_to(replace(host.spec(host.agent), replicas=2, writable=True))
    host.runtime.scale(host.agent, 3)
    address = host.address(host.agent)
    assert ask(address, "/keep").json == ["1"]
    host.runtime.shut_down(keep_instances=False)
    wait_until(lambda: not host.daemons[-1].alive())
    state = host.root / "runtime/state.json"
    state.write_text(state.read_text().replace(boot_id(), "another-boot"))

    host.serve()

    wait_until(lambda: len(_pids(host)) == 3)
    assert host.address(host.agent) == address
    wait_until(lambda: ask(address).status == 200)
    assert ask(address, "/keep").json == ["1", "1"]


def test_replicas_outlive_a_killed_daemon_and_are_found_again(host: Host) -> None:
    _deploy(host, 3)
    before = host.instance(host.agent, "first")

    host.kill_daemon()
    host.serve()

    assert host.instance(host.agent, "first") == before
    wait_until(lambda: ask(host.address(host.agent)).status == 200)
    wait_until(lambda: len(_answering(host)) == 3)


def test_a_scaling_cut_short_is_finished_by_the_next_daemon(host: Host) -> None:
    _deploy(host, 3)
    kept, *others = [identity(pid) for pid in _pids(host)]
    host.kill_daemon()
    state = host.root / "runtime/state.json"
    # What scale writes before it ends the others.
    state.write_text(state.read_text().replace('"wanted": 3', '"wanted": 1'))

    host.serve()

    wait_until(lambda: not any(one.alive() for one in others))
    wait_until(lambda: _pids(host) == [kept.pid])


def test_a_start_cut_short_is_completed_by_its_repeat(host: Host) -> None:
    spec = replace(host.spec(host.agent), replicas=2)
    first = host.run(replace(spec, replicas=1))
    host.kill_daemon()
    state = host.root / "runtime/state.json"
    # Of two replicas one had been launched.
    state.write_text(state.read_text().replace('"wanted": 1', '"wanted": 2'))
    host.serve()

    again = host.run(spec)

    assert again.replicas_running == 2
    assert again.pid == first.pid


def test_the_output_of_all_replicas_is_told_apart(host: Host) -> None:
    _deploy(host, 2)

    lines = host.runtime.logs(host.agent, "first", 10)

    assert sorted(lines) == ["[0] agent 1 starts", "[1] agent 1 starts"]


@pytest.mark.parametrize("wrong", [0, -1, 17, True])
def test_an_impossible_number_of_replicas_is_refused(host: Host, wrong: int) -> None:
    with pytest.raises(Rejected) as refused:
        host.run(replace(host.spec(host.agent), replicas=wrong))

    assert refused.value.code == "invalid_replicas"
    assert host.runtime.status(host.agent) is None
