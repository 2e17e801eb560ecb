"""How does one address lead to whatever instance is active right now?

Each workload has a server on its own loopback port. The upstream is chosen anew for
each request, so a kept-alive connection follows a switch and visits all replicas.
Bodies stream both ways, a chunk at a time. Every request opens its own upstream
connection: none can have gone stale, so a request that may not be repeated never fails
for that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from buildqueue.backends.localruntime import headers, websockets
from buildqueue.backends.localruntime.ports import LOOPBACK
from buildqueue.backends.localruntime.traffic import Traffic

logger = logging.getLogger(__name__)

MOST_REQUESTS = 1000  # in flight, for one address
MOST_CONNECTIONS = 2000  # open, for one address
PATIENCE_SECONDS = 3.0  # for an instance that is just being started again
CONNECT_SECONDS = 5.0
HEADER_BYTES = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """The replica an address leads to now."""

    key: Hashable  # its requests are counted under
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Nowhere:
    """Why an address leads nowhere now, and whether that may pass in seconds."""

    code: str
    message: str
    passing: bool


Resolve = Callable[[str], Upstream | Nowhere]


class Proxy:
    """The addresses of all workloads. Holds no state that a restart would miss."""

    def __init__(self, resolve: Resolve, traffic: Traffic) -> None:
        self._resolve, self._traffic = resolve, traffic
        self._session: aiohttp.ClientSession | None = None
        self._servers: dict[str, tuple[web.Server, asyncio.Server]] = {}

    def is_open(self, workload_id: str) -> bool:
        """Tell whether the address listens."""
        return workload_id in self._servers

    async def open(self, workload_id: str, port: int) -> None:
        """Listen on the address; raises OSError while another holds the port."""
        if self.is_open(workload_id):
            return

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            return await self._answer(workload_id, request)

        protocols = web.Server(
            answer,
            handler_cancellation=True,  # or a reader who left would count for ever
            access_log=None,
            keepalive_timeout=60.0,
            max_line_size=HEADER_BYTES,
            max_field_size=HEADER_BYTES,
        )

        def accept() -> asyncio.Protocol:
            if len(protocols.connections) >= MOST_CONNECTIONS:
                return _Refusal()
            return protocols()

        loop = asyncio.get_running_loop()
        server = await loop.create_server(accept, LOOPBACK, port, backlog=512)
        self._servers[workload_id] = (protocols, server)

    async def close(self, workload_id: str) -> None:
        """Stop listening and cut what is open; closed is fine."""
        found = self._servers.pop(workload_id, None)
        if found is None:
            return
        protocols, server = found
        server.close()
        await protocols.shutdown(timeout=1.0)

    async def close_all(self) -> None:
        """Close every address and all upstream connections."""
        for workload_id in list(self._servers):
            await self.close(workload_id)
        if self._session is not None:
            await self._session.close()

    async def _answer(
        self, workload_id: str, request: web.BaseRequest
    ) -> web.StreamResponse:
        if request.method == "CONNECT" or not request.path.startswith("/"):
            return _refused(405, "not_a_proxy", "this address serves one workload")
        if self._traffic.flying(workload_id) >= MOST_REQUESTS:
            return _refused(503, "too_busy", "too many requests are in flight")
        with self._traffic.flight(workload_id):
            return await self._forward_patiently(workload_id, request)

    async def _forward_patiently(
        self, workload_id: str, request: web.BaseRequest
    ) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_SECONDS
        while True:
            upstream = self._resolve(workload_id)
            if isinstance(upstream, Upstream):
                refused = Nowhere(
                    code="upstream_unreachable",
                    message="the workload does not accept connections",
                    passing=True,
                )
                # Nothing was sent when connecting failed, so trying again is safe.
                with (
                    suppress(aiohttp.ClientConnectorError),
                    self._traffic.flight(upstream.key),
                ):
                    return await self._forward(upstream, request)
            else:
                refused = upstream
            if not refused.passing or loop.time() >= deadline:
                status = 502 if isinstance(upstream, Upstream) else 503
                return _refused(status, refused.code, refused.message)
            await asyncio.sleep(0.05)

    async def _forward(
        self, upstream: Upstream, request: web.BaseRequest
    ) -> web.StreamResponse:
        url = URL(
            f"http://{LOOPBACK}:{upstream.port}{request.rel_url.raw_path_qs}",
            encoded=True,
        )
        forwarded = headers.forwarded(request)
        session = self._upstreams()
        try:
            if headers.wants_websocket(request):
                return await websockets.relay(session, url, forwarded, request)
            return await _relay(session, url, forwarded, request)
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            logger.info("an upstream failed: %r", error)
            if request.writer.output_size and request.transport is not None:
                # The head is out: only a cut tells the reader that this is not all.
                request.transport.abort()
            return _refused(502, "upstream_failed", "the workload broke off its answer")

    def _upstreams(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, force_close=True),
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=CONNECT_SECONDS, sock_read=None
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                max_line_size=HEADER_BYTES,
                max_field_size=HEADER_BYTES,
                skip_auto_headers=headers.NEVER_ADDED,
            )
        return self._session


async def _relay(
    session: aiohttp.ClientSession,
    url: URL,
    forwarded: CIMultiDict[str],
    request: web.BaseRequest,
) -> web.StreamResponse:
    body = request.content if request.can_read_body else None
    if body is not None and headers.expects_go_ahead(request) and request.transport:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    async with session.request(
        request.method, url, headers=forwarded, data=body, allow_redirects=False
    ) as answer:
        if answer.status < 200:
            # An interim answer nobody asked for leaves the reader in another protocol.
            return _refused(502, "upstream_failed", "the workload answered nonsense")
        phrase = answer.reason or ""
        response = web.StreamResponse(
            status=answer.status,
            reason=phrase if phrase.isprintable() else "",
            headers=headers.end_to_end(answer.headers),
        )
        await response.prepare(request)
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
        await response.write_eof()
        return response


def _refused(status: int, code: str, message: str) -> web.Response:
    response = web.json_response({"code": code, "message": message}, status=status)
    if status == 503:
        response.headers["Retry-After"] = "1"
    return response


class _Refusal(asyncio.Protocol):
    """Closes a connection above the bound at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
