"""Is only an instance that answers HTTP on its own port called healthy?"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest

from buildqueue.backends.localruntime.health import check, wait_healthy
from buildqueue.exceptions import Cancelled
from tests.integration.localruntime.hosts import Host, known


def test_an_agent_without_a_card_is_healthy_by_its_root(host: Host) -> None:
    host.start(host.agent, "first", MODE="cardless")

    report = host.healthy(host.agent, "first")

    assert report.healthy
    assert report.card is None


def test_a_candidate_that_exits_is_unhealthy_and_says_why(host: Host) -> None:
    host.start(host.agent, "first", MODE="exit")

    report = host.healthy(host.agent, "first")

    assert not report.healthy
    assert "exited with code 3" in report.reason
    assert "it will not work" in report.reason


def test_a_candidate_that_answers_500_is_unhealthy(host: Host) -> None:
    host.start(host.agent, "first", MODE="error")

    report = host.healthy(host.agent, "first", tries=8)

    assert not report.healthy
    assert "/ answered 500" in report.reason


def test_a_candidate_that_never_listens_is_unhealthy(host: Host) -> None:
    host.start(host.agent, "first", MODE="absent")

    report = host.healthy(host.agent, "first", tries=4)

    assert not report.healthy
    assert "nothing listens" in report.reason


def test_a_candidate_that_listens_and_never_answers_is_unhealthy(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("buildqueue.backends.localruntime.health.ANSWER_SECONDS", 0.3)
    host.start(host.agent, "first", MODE="silent")

    report = host.healthy(host.agent, "first", tries=6)

    assert not report.healthy
    assert "does not answer HTTP" in report.reason


def test_another_process_on_the_instances_port_is_not_healthy(host: Host) -> None:
    started = host.start(host.agent, "first", MODE="absent")
    squatter = HTTPServer(("127.0.0.1", known(started.port)), _Fine)
    threading.Thread(target=squatter.serve_forever, daemon=True).start()
    try:
        report = host.healthy(host.agent, "first", tries=3)
    finally:
        squatter.shutdown()
        squatter.server_close()

    assert not report.healthy
    assert "outside the instance" in report.reason


def test_waiting_ends_when_it_is_cancelled(host: Host) -> None:
    host.start(host.agent, "first", MODE="absent")

    with pytest.raises(Cancelled):
        wait_healthy(
            host.runtime,
            host.agent,
            "first",
            on_line=lambda _: None,
            cancelled=lambda: True,
        )


def test_a_redirect_is_an_answer_and_is_not_followed(served: _Served) -> None:
    port = served(302, b"", {"Location": "http://127.0.0.1:9/elsewhere"})

    assert check(port, os.getpid()).reason == "/ answered 302"


def test_an_endless_card_is_cut_off(served: _Served) -> None:
    port = served(200, b"{" + b" " * (2 * 1024 * 1024) + b"}", {})

    report = check(port, os.getpid())

    assert report.card is None


@pytest.mark.parametrize("card", [b"[1, 2]", b"no json", b"[" * 100_000])
def test_a_card_that_is_no_json_object_is_no_card(served: _Served, card: bytes) -> None:
    port = served(200, card, {})

    assert check(port, os.getpid()).card is None


def test_a_trickle_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("buildqueue.backends.localruntime.health.ANSWER_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ended = threading.Event()
        thread = threading.Thread(target=_trickle, args=(listening, ended))
        thread.start()

        report = check(listening.getsockname()[1], os.getpid())

        ended.set()
        thread.join()
    assert not report.healthy


class _Fine(BaseHTTPRequestHandler):
    status = 200
    body = b"{}"
    headers_sent: ClassVar[dict[str, str]] = {}

    def do_GET(self) -> None:
        self.send_response(self.status)
        for name, value in self.headers_sent.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        try:
            self.wfile.write(self.body)
        except OSError:
            return

    def log_message(self, *_: object) -> None:
        return


class _Served:
    def __init__(self) -> None:
        self.servers: list[HTTPServer] = []

    def __call__(self, status: int, body: bytes, headers: dict[str, str]) -> int:
        shape = {"status": status, "body": body, "headers_sent": headers}
        server = HTTPServer(("127.0.0.1", 0), type("Shaped", (_Fine,), shape))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.servers.append(server)
        return server.server_port


@pytest.fixture
def served() -> Iterator[_Served]:
    made = _Served()
    yield made
    for server in made.servers:
        server.shutdown()
        server.server_close()


def _trickle(listening: socket.socket, ended: threading.Event) -> None:
    connection, _ = listening.accept()
    with connection:
        while not ended.wait(0.1):
            try:
                connection.sendall(b"H")
            except OSError:
                return
