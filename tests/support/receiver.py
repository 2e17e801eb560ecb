"""How does a test receive webhooks? By a real server on loopback, which keeps them all.

Its answer depends on the path: `/ok` takes, `/busy` answers 503, `/elsewhere` redirects,
`/long` refuses at great length, `/trickle` refuses byte by byte, `/drip` takes so and
never comes to the end of its headers, `/silent` never answers
until the test ends, `/twice` takes only what it has seen before.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "whsec_" + "c2VjcmV0LW9mLXRoZS10ZXN0cy0wMTIzNDU2Nzg5"


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        """Return the notice's id."""
        return self.headers["webhook-id"]


@dataclass
class Receiver:
    """What came in so far, and where it listens."""

    port: int
    received: list[Received] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    def address(self, path: str = "/ok") -> str:
        """Return the address of a path."""
        return f"http://127.0.0.1:{self.port}{path}"

    def destination(self, path: str = "/ok", **options: Any) -> dict[str, Any]:
        """Return a destination for the settings."""
        made = {"name": "ops", "events": ["*"], "secret": SECRET}
        return made | {"webhook": self.address(path)} | options

    def ids(self) -> list[str]:
        """Return the ids of the notices that came in, in order."""
        return [each.id for each in self.received]


class _Handler(BaseHTTPRequestHandler):
    receiver: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        known = headers["webhook-id"] in self.receiver.ids()
        taken = self.path == "/ok" or (self.path == "/twice" and known)
        self.receiver.received.append(Received(self.path, headers, body))
        with suppress(OSError):  # the sender has given up, or was killed
            self._answer(taken=taken)

    do_GET = do_POST  # noqa: N815 (its name is the server's)

    def _answer(self, *, taken: bool) -> None:
        if self.path == "/silent":
            self.receiver.closing.wait(120)
            return
        if self.path == "/trickle":
            self._trickle()
            return
        if self.path == "/drip":
            self._drip()
            return
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", self.receiver.address("/ok"))
        else:
            self.send_response(204 if taken else 503)
        text = b"x" * 100_000 if self.path == "/long" else b"not\x00now"
        text = b"" if taken else text
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _trickle(self) -> None:
        self.send_response(500)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        for _ in range(100_000):
            self.wfile.write(b".")
            if self.receiver.closing.wait(0.1):
                return

    def _drip(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not self.receiver.closing.wait(0.05):
            self.wfile.write(b"a")

    def log_message(self, *args: Any) -> None:
        """Print nothing: the test tells what it saw."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Receive webhooks for a while."""
    handler: Any = type("Handler", (_Handler,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    receiver = handler.receiver = Receiver(server.server_address[1])
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield receiver
    finally:
        receiver.closing.set()
        server.shutdown()
        server.server_close()
        serving.join(30)
