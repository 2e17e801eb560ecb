"""Which headers go through a proxy, and which belong to one connection only?

Hop-by-hop headers, also those that Connection names, end here in both directions. Host
stays as the client sent it; X-Forwarded-* are filled in, never cut short.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import hdrs, web
from multidict import CIMultiDict, CIMultiDictProxy

NEVER_ADDED = (
    hdrs.USER_AGENT,
    hdrs.ACCEPT,
    hdrs.ACCEPT_ENCODING,
    hdrs.CONTENT_TYPE,
)

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "expect",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


def end_to_end(given: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """Return the headers without those of one connection."""
    named = _tokens(given.getall(hdrs.CONNECTION, []))
    ending = _HOP_BY_HOP | named
    return CIMultiDict(
        (name, value) for name, value in given.items() if name.lower() not in ending
    )


def forwarded(request: web.BaseRequest) -> CIMultiDict[str]:
    """Return the request's headers as the instance gets them."""
    result = end_to_end(request.headers)
    peer = request.remote
    if peer:
        before = result.popall("X-Forwarded-For", [])
        result["X-Forwarded-For"] = ", ".join([*before, peer])
    result.setdefault("X-Forwarded-Proto", "http")
    if host := request.headers.get(hdrs.HOST):
        result.setdefault("X-Forwarded-Host", host)
    return result


def wants_websocket(request: web.BaseRequest) -> bool:
    """Tell whether the request asks to become a WebSocket."""
    upgrades = _tokens(request.headers.getall(hdrs.UPGRADE, []))
    connection = _tokens(request.headers.getall(hdrs.CONNECTION, []))
    return "websocket" in upgrades and "upgrade" in connection


def expects_go_ahead(request: web.BaseRequest) -> bool:
    """Tell whether the client waits for 100 Continue before it sends the body."""
    given: Mapping[str, str] = request.headers
    return given.get(hdrs.EXPECT, "").lower() == "100-continue"


def _tokens(values: list[str]) -> frozenset[str]:
    parts = (part.strip().lower() for value in values for part in value.split(","))
    return frozenset(part for part in parts if part)
