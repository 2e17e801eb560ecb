"""Does the daemon answer all that reaches its socket, alone and for ever?"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from buildqueue.backends.localruntime.client import LocalRuntime
from buildqueue.backends.localruntime.places import Places
from buildqueue.backends.localruntime.ports import PortRange, Ports
from buildqueue.backends.localruntime.service import (
    ensure_running,
    scrubbed_environment,
    service,
)
from buildqueue.backends.localruntime.state import Store, UnreadableState
from buildqueue.exceptions import Rejected, Unavailable
from tests.integration.localruntime.hosts import Host
from tests.support.waiting import wait_until

MODULE = "buildqueue.backends.localruntime"


def test_a_second_serve_ends_at_once_and_leaves_the_first(host: Host) -> None:
    second = _run("serve", "--root", str(host.root))

    assert second.returncode == 0
    assert "running already" in second.stdout
    assert host.runtime.ping()["pid"] == host.daemons[-1].pid


def test_many_starters_at_once_leave_one_daemon(idle_host: Host) -> None:
    argv = service(idle_host.root, ports=idle_host.ports)
    assert argv is not None
    starters = [
        subprocess.Popen(argv, env=scrubbed_environment(), cwd="/") for _ in range(4)
    ]
    codes = [starter.wait(120) for starter in starters]
    idle_host.serve()

    assert codes == [0, 0, 0, 0]
    assert len(idle_host.daemons) == 1


def test_service_asks_for_a_start_only_while_none_runs(idle_host: Host) -> None:
    assert service(idle_host.root) is not None

    idle_host.serve()

    assert service(idle_host.root) is None


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\xff\xfe\x00garbage\n", "malformed_request"),
        (b"[]\n", "malformed_request"),
        (b"[" * 100_000 + b"\n", "malformed_request"),
        (b'{"verb": 3, "arguments": {}}\n', "malformed_request"),
        (b'{"verb": "fly", "arguments": {}}\n', "unknown_verb"),
        (b'{"verb": "__init__", "arguments": {}}\n', "unknown_verb"),
        (b'{"verb": "stop", "arguments": {}}\n', "wrong_arguments"),
        (b'{"verb": "stop", "arguments": {"workload_id": [1]}}\n', "wrong_arguments"),
        (b'{"verb": "stop", "arguments": {"workload": "x"}}\n', "wrong_arguments"),
        (b"x" * (3 * 1024 * 1024), "too_large"),
    ],
)
def test_garbage_on_the_socket_is_answered_and_harmless(
    shared_host: Host, sent: bytes, code: str
) -> None:
    with Places.below(shared_host.root).connect(60) as control:
        with suppress(OSError):  # what is too large is cut off in the middle
            control.sendall(sent)
        answer = json.loads(control.makefile("rb").readline())

    assert (answer["ok"], answer["code"]) == (False, code)
    assert shared_host.runtime.ping()


def test_a_caller_that_hangs_up_is_harmless(shared_host: Host) -> None:
    for sent in (b"", b'{"verb": ', b'{"verb": "workloads", "arguments": {}}\n'):
        with Places.below(shared_host.root).connect(60) as control:
            control.sendall(sent)

    assert shared_host.runtime.ping()


@pytest.mark.parametrize("workload_id", ["", "..", "a/b", "../../etc", ".x", "a" * 129])
def test_an_id_that_is_no_plain_name_is_refused(
    shared_host: Host, workload_id: str
) -> None:
    for call in (
        lambda: shared_host.runtime.delete(workload_id),
        lambda: shared_host.runtime.logs(workload_id, "x", 1),
        lambda: shared_host.runtime.logs("x", workload_id, 1),
    ):
        with pytest.raises(Rejected) as caught:
            call()
        assert caught.value.code == "invalid_id"


def test_without_a_daemon_the_runtime_is_unreachable(idle_host: Host) -> None:
    with pytest.raises(Unavailable) as caught:
        idle_host.runtime.workloads()

    assert caught.value.code == "runtime_unreachable"


def test_a_long_root_is_no_obstacle(worker_id: str, idle_host: Host) -> None:
    deep = idle_host.root / ("long-" * 20) / ("longer-" * 20)
    deep.mkdir(parents=True)
    for folder in (deep, deep.parent):
        folder.chmod(0o711)

    runtime = ensure_running(deep, options=("--ports", idle_host.ports))

    assert isinstance(runtime, LocalRuntime)
    assert runtime.workloads() == []
    runtime.shut_down(keep_instances=False)
    wait_until(lambda: service(deep) is not None)


def test_status_shows_what_runs(host: Host) -> None:
    host.deploy(host.agent, "first")

    shown = _run("status", "--root", str(host.root))

    assert shown.returncode == 0
    assert host.address(host.agent) in shown.stdout
    assert "* first  running" in shown.stdout


def test_stop_ends_everything_and_says_so_when_nothing_runs(host: Host) -> None:
    host.deploy(host.agent, "first")

    assert _run("stop", "--root", str(host.root)).returncode == 0

    assert not any(process.alive() for process in host.watched)
    wait_until(lambda: not host.daemons[-1].alive())
    again = _run("stop", "--root", str(host.root))
    assert again.returncode == 1
    assert "runtime_unreachable" in again.stderr


def test_stop_can_keep_the_instances(host: Host) -> None:
    host.deploy(host.agent, "first")

    _run("stop", "--keep-instances", "--root", str(host.root))

    wait_until(lambda: not host.daemons[-1].alive())
    assert all(process.alive() for process in host.watched)


@pytest.mark.parametrize("command", ["serve", "status", "stop"])
def test_every_command_has_help(command: str) -> None:
    shown = _run(command, "--help")

    assert shown.returncode == 0
    assert "--root" in shown.stdout


@pytest.mark.parametrize("ports", ["x", "1-2", "30000-20000", "20000"])
def test_an_impossible_port_range_is_refused(ports: str, tmp_path: Path) -> None:
    refused = _run("serve", "--root", str(tmp_path), "--ports", ports)

    assert refused.returncode == 2


def test_the_kernels_own_ports_are_skipped() -> None:
    kernels = PortRange(first=20_010, last=60_000)
    ports = Ports(PortRange(first=20_008, last=20_020), kernels)

    below_the_kernels = {20_008, 20_009}

    with pytest.raises(Unavailable) as caught:
        ports.free(below_the_kernels)

    assert caught.value.code == "no_free_port"


def test_a_state_file_of_another_shape_stops_the_start(idle_host: Host) -> None:
    places = Places.below(idle_host.root)
    places.state.write_text('{"format": 2}')

    with pytest.raises(UnreadableState):
        Store(places.state)
    with pytest.raises(Unavailable) as caught:
        ensure_running(idle_host.root, options=("--ports", idle_host.ports))

    assert "another shape" in str(caught.value)
    places.state.unlink()


def test_the_socket_is_private(host: Host) -> None:
    control = host.root / "runtime/control.sock"

    assert control.stat().st_mode & 0o777 == 0o600


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", MODULE, *arguments],
        env=scrubbed_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
