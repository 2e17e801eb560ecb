"""How are a probe's answers carried? Counted, by no proxy, and without a word in the log.

What is compressed could be larger than what is counted, so nothing is.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx2

MOST_BYTES = 1024 * 1024  # of all answers of one probe together


@dataclass(slots=True)
class Traffic:
    """What has come over the wire so far."""

    mask: Callable[[str], str] = str  # for what is told of its answers
    received: int = 0
    status: int | None = None  # of the last answer to a message

    def count(self, size: int) -> None:
        """Note that so much has come; raises TooMuch above the bound."""
        self.received += size
        if self.received > MOST_BYTES:
            raise TooMuch


class TooMuch(Exception):
    """The server has sent more than a list of tools may have."""


def http_client(seconds: float, traffic: Traffic) -> httpx2.AsyncClient:
    """Return a client that counts, and that no proxy of the worker's leads astray."""
    import httpx2

    class Counted(httpx2.AsyncByteStream):
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in self._stream:
                traffic.count(len(chunk))
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    class Counting(httpx2.AsyncHTTPTransport):
        async def handle_async_request(
            self, request: httpx2.Request
        ) -> httpx2.Response:
            response = await super().handle_async_request(request)
            if request.method == "POST":
                traffic.status = response.status_code
            response.stream = Counted(response.stream)
            return response

    return httpx2.AsyncClient(
        transport=Counting(trust_env=False),
        timeout=seconds,
        trust_env=False,
        headers={"Accept-Encoding": "identity"},
    )


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the client's own log out of the owner's; the verdict says what it found."""
    loggers = [logging.getLogger(name) for name in ("mcp", "httpx2")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
