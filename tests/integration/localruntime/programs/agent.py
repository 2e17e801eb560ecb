"""A small agent: serves its card, and misbehaves in the way its MODE says."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODE = os.environ.get("MODE", "")
VERSION = os.environ.get("VERSION", "1")
GO = threading.Event()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        return

    def answer(self, content: object, status: int = 200) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        if MODE == "error":
            self.answer({"error": "broken"}, 500)
        elif self.path == "/.well-known/agent-card.json" and MODE != "cardless":
            self.answer({"name": "agent", "version": VERSION})
        elif self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path == "/env":
            self.answer(dict(os.environ))
        elif self.path == "/headers":
            self.answer(self.headers.items())
        elif self.path == "/sse":
            self.events()
        elif self.path == "/hold":
            GO.wait(60)
            self.answer({"version": VERSION})
        elif self.path == "/go":
            GO.set()
            self.answer({})
        elif self.path == "/broken":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"only this")
            self.close_connection = True
        elif self.path == "/write":
            for name in ("HOME", "TMPDIR"):
                with open(os.path.join(os.environ[name], "kept"), "w") as file:
                    file.write("kept")
            self.answer({"kept": os.listdir(os.environ["HOME"])})
        elif self.path == "/keep":
            kept = os.path.join(os.environ["WRITABLE_PATH"], "kept")
            with open(kept, "a") as file:
                file.write(f"{VERSION}\n")
            with open(kept) as file:
                self.answer(file.read().split())
        elif self.path.startswith("/eat/"):
            eaten = bytearray(int(self.path[5:]) * 1024 * 1024)
            self.answer({"eaten": len(eaten)})
        elif self.path == "/fork":
            self.answer({"forked": forks(100)})
        elif self.path == "/burn":
            begun = time.process_time()
            until = time.monotonic() + 2
            while time.monotonic() < until:
                pass
            self.answer({"used": time.process_time() - begun})
        elif self.path == "/die":
            os._exit(7)
        elif self.path == "/phrase":
            self.send_response(200, "O\x01K")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path == "/interim":
            self.send_response(101)
            self.end_headers()
            self.close_connection = True
        elif self.path == "/ws":
            self.websocket()
        elif self.path == "/":
            port = int(os.environ["PORT"])
            self.answer({"version": VERSION, "pid": os.getpid(), "port": port})
        else:
            self.answer({"path": self.path}, 404)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        if self.path == "/too-large":
            self.close_connection = True
            self.answer({"error": "too large"}, 413)
            # As servers do that are made well: closing on unread bytes is a reset,
            # which may overtake the answer.
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_WR)
            while self.rfile.read(65536):
                pass
            return
        digest, total = hashlib.sha256(), 0
        for chunk in self.body():
            digest.update(chunk)
            total += len(chunk)
        self.answer({"bytes": total, "sha256": digest.hexdigest()})

    def body(self) -> Iterator[bytes]:
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers.get("Content-Length", "0"))
        while left:
            chunk = self.rfile.read(min(left, 65536))
            left -= len(chunk)
            yield chunk

    def events(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"data: one\n\n")
        GO.wait(60)
        self.wfile.write(b"data: two\n\n")
        self.close_connection = True

    def websocket(self) -> None:
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accepted = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", accepted)
        if protocol := self.headers.get("Sec-WebSocket-Protocol"):
            self.send_header("Sec-WebSocket-Protocol", protocol.split(",")[-1].strip())
        self.end_headers()
        self.close_connection = True
        while True:
            first, second = self.rfile.read(2)
            length = second & 0x7F
            if length == 126:
                (length,) = struct.unpack("!H", self.rfile.read(2))
            mask = self.rfile.read(4)
            payload = bytes(
                byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(length))
            )
            self.wfile.write(bytes([first]) + frame_length(len(payload)) + payload)
            if first & 0x0F == 8:
                return


def frame_length(length: int) -> bytes:
    return bytes([length]) if length < 126 else b"\x7e" + struct.pack("!H", length)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def serve() -> None:
    Server((os.environ["HOST"], int(os.environ["PORT"])), Handler).serve_forever()


def main() -> None:
    print(f"agent {VERSION} starts", flush=True)
    if MODE == "tell":
        print(f"the secret is {os.environ['SECRET']}, cut", flush=True)
        for letter in os.environ["SECRET"]:
            sys.stdout.write(letter)
            sys.stdout.flush()
        sys.stdout.buffer.write(b"\xff\n")
        sys.stdout.flush()
        print("and that is all", flush=True)
    if MODE == "greedy":
        eaten = bytearray(400 * 1024 * 1024)
        print(len(eaten), flush=True)
    if MODE == "exit":
        print("it will not work", flush=True)
        sys.exit(3)
    if MODE == "silent":
        listening = socket.create_server((os.environ["HOST"], int(os.environ["PORT"])))
        held = []
        while True:
            held.append(listening.accept())
    if MODE == "absent":
        time.sleep(3600)
    if MODE == "fork-bomb":
        fork_bomb()
    if MODE == "escape":
        escaped = subprocess.Popen(
            [sys.executable, "-c", f"import time; time.sleep(3600)  # {VERSION}"],
            start_new_session=True,
        )
        print(f"escaped {escaped.pid}", flush=True)
    if MODE == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if MODE == "polite":
        signal.signal(
            signal.SIGTERM, lambda *_: (print("goodbye", flush=True), os._exit(0))
        )
    serve()


def forks(most: int) -> int:
    """Return how many processes could be made, and end them."""
    made = []
    try:
        for _ in range(most):
            if (pid := os.fork()) == 0:
                time.sleep(3600)
            made.append(pid)
    except OSError:
        pass
    for pid in made:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return len(made)


def fork_bomb() -> None:
    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    while True:
        try:
            if os.fork() == 0:
                time.sleep(3600)
        except OSError as error:
            print(f"no more: {error}", flush=True)
            time.sleep(3600)


if __name__ == "__main__":
    main()
