"""How does a notice not hold up the others, however slowly its receiver answers?

A time-out of a socket counts from byte to byte; this counts from the first to the last.
When it is over, a timer shuts the connection down underneath whoever reads from it, be
it in a handshake, in headers or in a body. Only the look-up of a name is left to the
time-outs of the system's resolver.
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
import urllib.request
from contextlib import suppress
from types import TracebackType
from typing import Any, Self


class Deadline:
    """The end of one exchange; use it as a context, which stops the timer."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._lines: list[socket.socket] = []

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        with self._lock:
            for line in self._lines:
                line.close()
            self._lines.clear()

    @property
    def is_over(self) -> bool:
        """Whether what came since may be cut off in the middle."""
        return time.monotonic() >= self._until

    def connect(
        self,
        address: tuple[str, int],
        timeout: float | None = None,
        source_address: tuple[str, int] | None = None,
    ) -> socket.socket:
        """Connect, to whichever of the addresses answers, and watch the connection."""
        found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
        refused: OSError = OSError("the name has no address")
        for *_, place in found:
            left = self._until - time.monotonic()
            if left <= 0:
                raise TimeoutError("connecting has taken too long")
            within = left if timeout is None else min(left, timeout)
            try:
                made = socket.create_connection(
                    (str(place[0]), int(place[1])), within, source_address
                )
            except OSError as error:
                refused = error
                continue
            made.settimeout(timeout)
            self._watch(made)
            return made
        raise refused

    def _watch(self, made: socket.socket) -> None:
        # A second name for the same connection: TLS takes the first one over.
        with self._lock:
            self._lines.append(made.dup())
        if self.is_over:  # and the timer has come before
            self._end()

    def _end(self) -> None:
        with self._lock:
            for line in self._lines:
                with suppress(OSError):  # it has been closed by the other side
                    line.shutdown(socket.SHUT_RDWR)


class HttpWithin(urllib.request.HTTPHandler):
    """Plain HTTP within a deadline."""

    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> Any:
        """Open the address."""
        return self.do_open(self._made, req)

    def _made(self, host: str, **options: Any) -> http.client.HTTPConnection:
        made: Any = http.client.HTTPConnection(host, **options)
        made._create_connection = self._deadline.connect
        return made  # type: ignore[no-any-return]


class HttpsWithin(urllib.request.HTTPSHandler):
    """HTTPS within a deadline."""

    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def https_open(self, req: urllib.request.Request) -> Any:
        """Open the address."""
        return self.do_open(self._made, req)

    def _made(self, host: str, **options: Any) -> http.client.HTTPSConnection:
        made: Any = http.client.HTTPSConnection(host, **options)
        made._create_connection = self._deadline.connect
        return made  # type: ignore[no-any-return]
