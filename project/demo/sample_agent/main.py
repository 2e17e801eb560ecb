"""What is the smallest agent that is worth deploying? It greets, and it echoes.

GET /.well-known/agent-card.json tells who it is, GET / greets, POST / answers a
JSON-RPC request with its own parameters. It listens where HOST and PORT say.
"""

from __future__ import annotations

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CARD_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
CARD = json.loads(Path(__file__).with_name("AgentCard.json").read_text())
LARGEST_BODY = 1024 * 1024


class Answers(BaseHTTPRequestHandler):
    """One request at a time, each in a thread of its own."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Show the card, or greet."""
        if self.path in CARD_PATHS:
            self._answer(200, CARD)
        elif self.path == "/":
            greeting = os.environ.get("GREETING", "Hello")
            self._answer(200, {"message": f"{greeting} from {CARD['name']}"})
        else:
            self._answer(404, {"error": "there is nothing here"})

    def do_POST(self) -> None:
        """Echo the parameters of a JSON-RPC request."""
        length = int(self.headers.get("Content-Length") or 0)
        if length > LARGEST_BODY:
            self._answer(413, {"error": f"at most {LARGEST_BODY} bytes"})
            return
        try:
            asked = json.loads(self.rfile.read(length))
            echo = {"echo": asked.get("params"), "version": CARD["version"]}
            self._answer(200, {"jsonrpc": "2.0", "id": asked.get("id"), "result": echo})
        except (ValueError, AttributeError):
            fault = {"code": -32700, "message": "the body is no JSON object"}
            self._answer(400, {"jsonrpc": "2.0", "id": None, "error": fault})

    def _answer(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if status == 413:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    """Serve until the process is ended."""
    host = os.environ.get("HOST", "0.0.0.0")  # noqa: S104 (in a container: all of it)
    port = int(os.environ.get("PORT", "8000"))
    with ThreadingHTTPServer((host, port), Answers) as server:
        print(f"{CARD['name']} {CARD['version']} listens on port {port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
