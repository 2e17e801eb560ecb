"""Does everything HTTP pass through an address unchanged and unbuffered?"""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.integration.localruntime.hosts import Host, ask, connect, known, read


@pytest.fixture(scope="module")
def address(shared_host: Host) -> str:
    """The address of an agent that all tests here may ask."""
    shared_host.deploy(shared_host.agent, "first")
    return shared_host.address(shared_host.agent)


def test_server_sent_events_stream_unbuffered(address: str) -> None:
    connection = connect(address)
    connection.request("GET", "/sse")
    response = connection.getresponse()

    assert response.readline() == b"data: one\n"
    ask(address, "/go")

    assert response.read() == b"\ndata: two\n\n"
    connection.close()


def test_a_websocket_echoes(address: str) -> None:
    async def talk() -> tuple[str, bytes, bytes, str | None, int | None]:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(
                f"{address}/ws",
                protocols=("old", "new"),
                autoping=False,
            ) as ws,
        ):
            await ws.send_str("hello")
            text = await ws.receive_str()
            await ws.send_bytes(b"x" * 60_000)
            binary = await ws.receive_bytes()
            await ws.ping(b"?")
            pinged = await ws.receive()
            await ws.close(code=4001)
            return text, binary, pinged.data, ws.protocol, ws.close_code

    text, binary, pinged, protocol, code = asyncio.run(talk())

    assert text == "hello"
    assert binary == b"x" * 60_000
    assert pinged == b"?"
    assert protocol == "new"
    assert code == 4001


def test_a_refused_websocket_keeps_its_status(address: str) -> None:
    async def talk() -> int:
        async with aiohttp.ClientSession() as session:
            try:
                await session.ws_connect(f"{address}/absent")
            except aiohttp.WSServerHandshakeError as refusal:
                return refusal.status
        return 0

    assert asyncio.run(talk()) == 404


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_body_arrives_whole(address: str, chunked: bool) -> None:
    parts = [bytes([number]) * 1_000_000 for number in range(16)]
    whole = b"".join(parts)

    body: bytes | Iterator[bytes] = iter(parts) if chunked else whole
    reply = ask(address, "/upload", "POST", body)

    assert reply.json == {
        "bytes": len(whole),
        "sha256": hashlib.sha256(whole).hexdigest(),
    }


def test_an_answer_given_before_the_body_was_read_arrives(address: str) -> None:
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as raw:
        raw.sendall(
            b"POST /too-large HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n"
        )
        raw.sendall(b"x" * 300_000)
        assert raw.recv(100).startswith(b"HTTP/1.1 413")


def test_a_client_that_waits_for_100_continue_gets_it(address: str) -> None:
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as raw:
        raw.sendall(
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
            b"Expect: 100-continue\r\nConnection: close\r\n\r\n"
        )
        assert raw.recv(100).startswith(b"HTTP/1.1 100")
        raw.sendall(b"ok")
        assert b'"bytes": 2' in raw.makefile("rb").read()


def test_host_stays_and_forwarded_headers_are_added(address: str) -> None:
    given = {
        "Host": "agent.example",
        "X-Forwarded-For": "192.0.2.1",
        "X-Forwarded-Proto": "https",
        "Connection": "keep-alive, X-Private",
        "X-Private": "for the proxy alone",
        "TE": "trailers",
    }

    reply = ask(address, "/headers", headers=given)

    got = {name.lower(): value for name, value in reply.json}  # type: ignore[attr-defined]
    assert got["host"] == "agent.example"
    assert got["x-forwarded-for"] == "192.0.2.1, 127.0.0.1"
    assert got["x-forwarded-proto"] == "https"
    assert got["x-forwarded-host"] == "agent.example"
    assert not {"x-private", "te", "user-agent", "accept"} & set(got)


def test_the_path_and_query_pass_as_they_were_sent(address: str) -> None:
    for path in ("/a%2Fb/../c//d?x=%20&y=%C3%A4&z", "/x//?//", "/%zz?%"):
        assert ask(address, path).json == {"path": path}


def test_a_head_request_keeps_the_length_and_has_no_body(address: str) -> None:
    reply = ask(address, "/", "HEAD")

    assert reply.status == 200
    assert reply.body == b""
    assert int(reply.headers["Content-Length"]) > 0


def test_a_redirect_is_passed_on(address: str) -> None:
    reply = ask(address, "/redirect")

    assert reply.status == 302
    assert reply.headers["Location"] == "http://127.0.0.1:9/elsewhere"


def test_an_answer_that_breaks_off_is_not_made_whole(address: str) -> None:
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        ask(address, "/broken")


def test_a_reason_with_control_characters_is_left_out(address: str) -> None:
    assert ask(address, "/phrase").status == 200


def test_a_switch_of_protocols_that_nobody_asked_for_is_not_passed_on(
    address: str,
) -> None:
    reply = ask(address, "/interim")

    assert reply.status == 502
    assert isinstance(reply.json, dict)
    assert reply.json["code"] == "upstream_failed"


def test_a_workload_never_promoted_answers_503_with_a_code(host: Host) -> None:
    host.start(host.agent, "first")

    reply = ask(host.address(host.agent))

    assert reply.status == 503
    assert reply.json["code"] == "workload_stopped"  # type: ignore[index]


def test_a_process_on_the_port_of_a_restarted_instance_gets_no_request(
    host: Host,
) -> None:
    host.start(host.agent, "first", MODE="absent")
    host.runtime.promote(host.agent, "first")
    port = host.instance(host.agent, "first").port
    with socket.create_server(("127.0.0.1", known(port))) as squatter:
        squatter.setblocking(False)
        reply = ask(host.address(host.agent))

        assert reply.status == 503
        with pytest.raises(BlockingIOError):
            squatter.accept()


def test_one_connection_carries_many_requests(address: str) -> None:
    connection = connect(address)
    for _ in range(20):
        connection.request("POST", "/", body=b"x" * 10)
        assert read(connection).status == 200
    connection.close()
