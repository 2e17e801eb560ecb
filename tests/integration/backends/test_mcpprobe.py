"""Is an MCP server told from what is none, and from what is not there yet?

Real servers in processes of their own, asked by the official client.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import pytest

from buildqueue.backends import mcpprobe
from buildqueue.backends.base import InstanceStatus, Runtime, WorkloadStatus
from buildqueue.backends.localruntime.listening import listeners
from buildqueue.backends.mcpprobe import Tool, probe, wait_ready
from buildqueue.exceptions import BackendError, Cancelled, Rejected, Unavailable
from tests.support.mcpserver import REAL, source
from tests.support.servers import free_port
from tests.support.waiting import wait_until


class Served:
    """A server in a process, and a runtime that knows nothing but it."""

    def __init__(self, program: str) -> None:
        self.port, self.status_changes = free_port(), dict[str, Any]()
        self.process = subprocess.Popen(
            [sys.executable, "-c", program],
            env={"HOST": "127.0.0.1", "PORT": str(self.port), "PATH": os.defpath},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def listening(self) -> Served:
        wait_until(lambda: listeners(self.port), message="it never listens")
        return self

    def status(self, workload_id: str) -> WorkloadStatus:
        ended = self.process.poll()
        values = {
            "instance_id": "i",
            "state": "running" if ended is None else "exited",
            "pid": self.process.pid if ended is None else None,
            "port": self.port,
            "exit_code": ended,
            "restarts": 0,
            "confined": "none",
            "replicas_running": 1 if ended is None else 0,
            **self.status_changes,
        }
        return WorkloadStatus(
            workload_id=workload_id,
            address=None,
            active=None,
            replicas=0,
            instances=(InstanceStatus(**values),),
        )

    def logs(self, workload_id: str, instance_id: str, tail: int) -> list[str]:
        return ["its last line"]

    def wait_ready(self, *, tries: int = 200, **options: Any) -> tuple[Tool, ...]:
        options.setdefault("on_line", lambda line: None)
        options.setdefault("cancelled", lambda: False)
        return wait_ready(
            cast(Runtime, self), "w", "i", tries=tries, interval=0.05, **options
        )


@contextmanager
def served(program: str | None = None, **options: Any) -> Iterator[Served]:
    made = Served(source(**options) if program is None else program)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()


def fault(url: str, **options: Any) -> BackendError:
    with pytest.raises(BackendError) as refused:
        probe(url, **options)
    return refused.value


def test_the_tools_are_listed_with_all_that_is_known_of_them() -> None:
    with served(tools=["echo"]) as server:
        (tool,) = probe(server.listening().url)

    assert tool == Tool(
        name="echo",
        title="Echo",
        description="What echo does",
        input_schema={"type": "object", "properties": {"text": {"type": "string"}}},
    )


def test_every_page_of_the_list_is_asked_for() -> None:
    names = [f"tool{number}" for number in range(25)]
    with served(tools=names, page=10) as server:
        assert [tool.name for tool in probe(server.listening().url)] == names


def test_a_server_made_with_the_official_package_is_understood() -> None:
    with served(REAL) as server:
        assert [tool.name for tool in probe(server.listening().url)] == ["add"]


def test_a_server_that_knows_no_initialize_is_asked_the_newer_way() -> None:
    with served(manner="modern") as server:
        names = [tool.name for tool in probe(server.listening().url)]

    assert names == ["echo", "tell"]


def test_a_server_without_tools_is_one_all_the_same() -> None:
    with served(tools=[]) as server:
        assert probe(server.listening().url) == ()


def test_nobody_there_is_no_fault_yet() -> None:
    assert fault(f"http://127.0.0.1:{free_port()}/mcp").code == "mcp_not_ready"


@pytest.mark.parametrize("manner", ["unwell", "slow"])
def test_a_server_that_asks_to_come_later_is_no_fault_yet(manner: str) -> None:
    with served(manner=manner) as server:
        found = fault(server.listening().url)

    assert isinstance(found, Unavailable)
    assert "503" in str(found)


def test_a_server_that_says_nothing_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
        found = fault(url, seconds=0.3)

    assert isinstance(found, Unavailable)
    assert "0.3 s" in str(found)


def test_a_server_that_trickles_for_ever_is_given_up_in_time() -> None:
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def trickle() -> None:
            opened, _ = listening.accept()
            with opened, suppress(OSError):
                opened.sendall(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                    b"Content-Length: 9999\r\n\r\n"
                )
                while not stop.wait(0.05):
                    opened.sendall(b" ")

        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
            assert isinstance(fault(url, seconds=0.5), Unavailable)
        finally:
            stop.set()
            thread.join()


@pytest.mark.parametrize(
    ("manner", "told"),
    [
        ("plain", "no JSON-RPC"),
        ("endless", "pages"),
        ("huge", "bytes"),
        ("deep", "nested deeper"),
        ("nameless", "name"),
    ],
)
def test_what_answers_otherwise_is_rejected_with_the_reason(
    manner: str, told: str
) -> None:
    with served(manner=manner) as server:
        found = fault(server.listening().url)

    assert isinstance(found, Rejected)
    assert found.code == "mcp_protocol_error"
    assert told in str(found)


def test_more_tools_than_anybody_needs_are_rejected() -> None:
    names = [f"t{number}" for number in range(mcpprobe.MOST_TOOLS + 1)]
    with served(tools=names) as server:
        assert "1000 tools" in str(fault(server.listening().url))


def test_another_path_than_mcp_is_rejected() -> None:
    with served() as server:
        found = fault(server.listening().url.replace("/mcp", "/elsewhere"))

    assert isinstance(found, Rejected)
    assert "404" in str(found)


def test_no_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with served() as server:
        assert probe(server.listening().url)


def test_an_instance_is_waited_for_until_it_is_ready() -> None:
    lines: list[str] = []
    with served(manner="slow") as server:
        tools = server.wait_ready(on_line=lines.append)

    assert [tool.name for tool in tools] == ["echo", "tell"]
    assert lines[-1] == "health: it speaks MCP; tools that it offers: 2"
    assert any("503" in line for line in lines)


def test_an_instance_that_never_listens_times_out() -> None:
    with served(manner="silent") as server, pytest.raises(Rejected) as refused:
        server.wait_ready(tries=3)

    assert refused.value.code == "health_timeout"
    assert "nothing listens" in str(refused.value)


def test_an_instance_that_has_exited_is_not_waited_for() -> None:
    with served(manner="crashes") as server, pytest.raises(Rejected) as refused:
        server.wait_ready()

    assert (refused.value.code, refused.value.exit_code) == ("start_failed", 1)
    assert "its last line" in str(refused.value)


def test_an_instance_that_was_killed_is_told_with_its_signal() -> None:
    with served() as server:
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        with pytest.raises(Rejected, match="signal 9"):
            server.wait_ready()


def test_an_instance_out_of_memory_has_its_own_code() -> None:
    with served(manner="crashes") as server:
        server.status_changes = {"exit_reason": "out_of_memory"}
        with pytest.raises(Rejected) as refused:
            server.wait_ready()

    assert refused.value.code == "out_of_memory"


def test_what_does_not_speak_mcp_is_not_asked_for_long() -> None:
    with served(manner="plain") as server, pytest.raises(Rejected) as refused:
        server.wait_ready()

    assert refused.value.code == "mcp_protocol_error"


def test_a_stranger_on_the_port_is_not_taken_for_the_instance() -> None:
    with served() as stranger, served(manner="silent") as server:
        stranger.listening()
        server.status_changes = {"port": stranger.port}
        with pytest.raises(Rejected, match="outside the instance"):
            server.wait_ready(tries=2)


def test_waiting_ends_when_it_is_cancelled() -> None:
    with served(manner="silent") as server, pytest.raises(Cancelled):
        server.wait_ready(cancelled=lambda: True)


def test_a_worker_without_the_client_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mcpprobe, "find_spec", lambda name: None)
    with served() as server, pytest.raises(Unavailable, match=r"\[mcp\]"):
        server.wait_ready()
