"""Is the daemon out of reach of the agents it runs, and they out of each other's?"""

from __future__ import annotations

import os

import pytest

from buildqueue.backends.base import WorkloadSpec
from tests.integration.localruntime.hosts import (
    Host,
    ask,
    confinement,
    identity,
    prober,
)
from tests.support.waiting import wait_until


def test_an_agent_sees_nothing_of_the_starters_environment(
    idle_host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://secret")
    idle_host.serve()
    idle_host.deploy(idle_host.agent, "first", GREETING="hello")

    env = ask(idle_host.address(idle_host.agent), "/env").json

    assert isinstance(env, dict)
    assert env["GREETING"] == "hello"
    assert env["HOST"] == "127.0.0.1"
    assert env["PORT"] == str(idle_host.instance(idle_host.agent, "first").port)
    known = {"PATH", "LANG", "LC_CTYPE", "HOME", "TMPDIR", "PWD", "HOST", "PORT"}
    assert set(env) - known == {"GREETING", "VERSION"}


def test_the_daemon_itself_knows_no_secret(
    idle_host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://secret")

    idle_host.serve()

    try:
        with open(f"/proc/{idle_host.daemons[-1].pid}/environ", "rb") as file:
            assert b"DATABASE_URL" not in file.read()
    except PermissionError:
        assert os.geteuid() != 0  # its memory is closed to its own user, too


def test_an_agent_is_confined(host: Host) -> None:
    assert host.start(host.agent, "first").confined in ("uid", "namespace")


def test_an_agent_can_write_into_its_home_and_temporary_folder(host: Host) -> None:
    host.deploy(host.agent, "first")

    reply = ask(host.address(host.agent), "/write")

    assert (reply.status, reply.json) == (200, {"kept": ["kept"]})


def test_an_agent_cannot_reach_the_control_socket(host: Host) -> None:
    script = (
        "import socket; s = socket.socket(socket.AF_UNIX);"
        f"s.connect({str(host.root / 'runtime/control.sock')!r})"
    )
    program = "import subprocess, sys\n" + (
        f"sys.exit(subprocess.run([sys.executable, '-c', {script!r}]).returncode)\n"
    )
    _run_instead(host, program)

    wait_until(lambda: host.instance(host.agent, "first").state == "exited")

    assert host.instance(host.agent, "first").exit_code == 1
    text = "\n".join(host.runtime.logs(host.agent, "first", 50))
    assert "PermissionError" in text or "FileNotFoundError" in text


def test_an_agent_can_signal_neither_the_daemon_nor_a_keeper(host: Host) -> None:
    daemon = host.daemons[-1]
    program = (
        "import os, sys\n"
        f"for pid in ({daemon.pid}, os.getppid()):\n"
        "    try:\n"
        "        os.kill(pid, 9)\n"
        "    except OSError as error:\n"
        "        print(type(error).__name__)\n"
    )
    _run_instead(host, program)

    wait_until(lambda: host.instance(host.agent, "first").state == "exited")

    assert daemon.alive()


def test_a_fork_bomb_leaves_the_proxy_of_others_alone(host: Host) -> None:
    host.deploy(host.other, "first")

    with prober(host.address(host.other)) as answers:
        host.start(host.agent, "first", MODE="fork-bomb")
        wait_until(
            lambda: any("no more" in line for line in _log(host)),
            message=lambda: _log(host),
        )
        host.runtime.delete(host.agent)

    assert {status for status, _ in answers} == {200}


def test_files_with_secrets_are_closed_to_others(host: Host) -> None:
    host.deploy(host.agent, "first", SECRET="open-sesame")

    runtime = host.root / "runtime"
    assert runtime.stat().st_mode & 0o777 == 0o700
    for path in runtime.rglob("*"):
        assert not path.lstat().st_mode & 0o077, path


def test_the_daemon_leaves_the_session_of_its_starter(host: Host) -> None:
    daemon = host.daemons[-1]

    assert os.getsid(daemon.pid) == daemon.pid
    assert identity(daemon.pid) == daemon


def _log(host: Host) -> list[str]:
    return host.runtime.logs(host.agent, "first", 50)


def _run_instead(host: Host, program: str) -> None:
    reference = host.bundle(host.agent)
    folder = next((host.root / "bundles" / host.agent).glob("1-*"))
    (folder / "app/agent.py").write_text(program)
    confinement().grant_read(folder, host.agent)
    host.runtime.start(
        WorkloadSpec(workload_id=host.agent, instance_id="first", reference=reference)
    )
