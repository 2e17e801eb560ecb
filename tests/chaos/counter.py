"""What is the outside world? A process that counts each effect, and is never told twice.

`python -m tests.chaos.counter` prints its port and serves until it is ended. An effect
is counted before it is answered, so an answer that is lost leaves an effect that happened.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from buildqueue.exceptions import NotDone

ADDRESS = "BUILDQUEUE_CHAOS_COUNTER"  # host:port, as the worker's host sees it
CONNECT_SECONDS, ANSWER_SECONDS = 2.0, 10.0


# -- of a job ------------------------------------------------------------------------


def ask(answer: str, seconds: float, action: Any) -> dict[str, Any]:
    """Have the effect happen, and return the receipt.

    NotDone where it certainly has not; any other error leaves that open.
    """
    host, _, port = os.environ[ADDRESS].rpartition(":")
    line = http.client.HTTPConnection(host, int(port), timeout=CONNECT_SECONDS)
    time.sleep(seconds / 2)
    try:
        line.connect()
    except OSError as error:
        raise NotDone(f"the counter is out of reach: {error}") from error
    line.timeout = ANSWER_SECONDS
    if line.sock is not None:
        line.sock.settimeout(ANSWER_SECONDS)
    try:
        line.request("POST", f"/{action.pk}?{answer}")
        answered = line.getresponse()
        receipt: dict[str, Any] = json.loads(answered.read())
    finally:
        line.close()
    if answered.status == 503:
        raise NotDone("the counter refuses")
    time.sleep(seconds / 2)
    return receipt


# -- of the run ------------------------------------------------------------------------


@contextmanager
def counting() -> Iterator[int]:
    """Have a counter run meanwhile; yield its port, on every address of this host."""
    command = [sys.executable, "-m", "tests.chaos.counter"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def counted(port: int) -> dict[str, int]:
    """Return how often each action's effect has happened."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    line.request("GET", "/")
    counts: dict[str, int] = json.loads(line.getresponse().read())
    line.close()
    return counts


# -- the process -------------------------------------------------------------------------


class _Handler(BaseHTTPRequestHandler):
    counts: Counter[str] = Counter()
    refused: set[str] = set()
    lock = threading.Lock()

    def do_POST(self) -> None:
        action, _, wanted = self.path.lstrip("/").partition("?")
        with self.lock:
            refuse = wanted == "refuse_once" and action not in self.refused
            self.refused.add(action)
            self.counts[action] += not refuse
        if wanted != "hang_up":
            self._answer(503 if refuse else 200, {"action": action})

    def do_GET(self) -> None:
        with self.lock:
            self._answer(200, dict(self.counts))

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Print nothing but the port."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who asked may be dead by now: nobody is there to be told."""


def main() -> None:
    """Count until ended."""
    server = _Server(("", 0), _Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
