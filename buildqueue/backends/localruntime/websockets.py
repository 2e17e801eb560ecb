"""How does a WebSocket pass? Message by message, pings and the close code included.

The instance is asked first: only what it accepts, with the subprotocol it chose, is
accepted here, and its refusal is passed on with its status.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

import aiohttp
from aiohttp import WSMsgType, hdrs, web
from multidict import CIMultiDict
from yarl import URL

MOST_BYTES = 64 * 1024 * 1024  # of one message

_HANDSHAKE = (
    hdrs.SEC_WEBSOCKET_KEY,
    hdrs.SEC_WEBSOCKET_VERSION,
    hdrs.SEC_WEBSOCKET_EXTENSIONS,
    hdrs.SEC_WEBSOCKET_PROTOCOL,
    hdrs.SEC_WEBSOCKET_ACCEPT,
)

_Side = aiohttp.ClientWebSocketResponse | web.WebSocketResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    code: int
    reason: bytes


async def relay(
    session: aiohttp.ClientSession,
    url: URL,
    forwarded: CIMultiDict[str],
    request: web.BaseRequest,
) -> web.StreamResponse:
    """Connect both sides until one of them is closed, then close the other alike."""
    protocols = _protocols(request)
    for name in _HANDSHAKE:
        forwarded.popall(name, None)
    try:
        upstream = await session.ws_connect(
            url,
            headers=forwarded,
            protocols=protocols,
            autoping=False,
            autoclose=False,
            max_msg_size=MOST_BYTES,
        )
    except aiohttp.WSServerHandshakeError as refusal:
        status = refusal.status if refusal.status >= 400 else 502
        return web.Response(status=status)
    async with upstream:
        downstream = web.WebSocketResponse(
            protocols=[upstream.protocol] if upstream.protocol else (),
            autoping=False,
            autoclose=False,
            compress=False,
            max_msg_size=MOST_BYTES,
        )
        await downstream.prepare(request)
        await _both_ways(upstream, downstream)
        return downstream


async def _both_ways(
    upstream: aiohttp.ClientWebSocketResponse, downstream: web.WebSocketResponse
) -> None:
    ways = [
        asyncio.create_task(_one_way(upstream, downstream)),
        asyncio.create_task(_one_way(downstream, upstream)),
    ]
    try:
        done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        ending = done.pop().result()
    finally:
        # Only one reader at a time: closing reads, too.
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
    await asyncio.gather(
        upstream.close(code=ending.code, message=ending.reason),
        downstream.close(code=ending.code, message=ending.reason),
    )


async def _one_way(source: _Side, sink: _Side) -> _Ending:
    """Pass messages on until the source closes or either side is gone."""
    with suppress(ConnectionError, aiohttp.ClientError):
        while True:
            message = await source.receive()
            match message.type:
                case WSMsgType.TEXT:
                    await sink.send_str(message.data)
                case WSMsgType.BINARY:
                    await sink.send_bytes(message.data)
                case WSMsgType.PING:
                    await sink.ping(message.data)
                case WSMsgType.PONG:
                    await sink.pong(message.data)
                case WSMsgType.CLOSE:
                    code = message.data or aiohttp.WSCloseCode.OK
                    return _Ending(code=code, reason=_reason(message.extra))
                case _:
                    break
    return _Ending(code=aiohttp.WSCloseCode.GOING_AWAY, reason=b"")


def _reason(extra: object) -> bytes:
    return extra.encode() if isinstance(extra, str) else b""


def _protocols(request: web.BaseRequest) -> list[str]:
    given = request.headers.getall(hdrs.SEC_WEBSOCKET_PROTOCOL, [])
    parts = (part.strip() for value in given for part in value.split(","))
    return [part for part in parts if part]
