"""How does a test get a git repository that is reached over HTTP? By a server of its own.

A real one, on loopback: Python's HTTP server in front of `git http-backend`.

    with git_server() as server:                    # git_server(tls=True) for https
        repo = server.repository("team/app")
        first = repo.commit({"main.py": "print(1)\\n"}, message="first")
        repo.tag("v1")                              # annotated with message="..."
        repo.commit({"main.py": "print(2)\\n", "old.py": None}, branch="next")
        repo.force_push({"main.py": "print(3)\\n"})  # main's history is gone
        server.require_token("secret")              # Basic (any user) or Bearer
        server.url("team/app")                      # http://127.0.0.1:<port>/team/app.git
        server.host                                 # "127.0.0.1:<port>", for GIT_HOSTS
        server.requests                             # what it was asked, oldest first

The settings that let buildqueue fetch from it are `server.settings`: GIT_PROTOCOLS and
GIT_HOSTS. With tls=True the client needs GIT_SSL_CAINFO=server.ca_file.

Faults, each for one repository until `server.heal(name)`: `redirect`, `answer` (any
status and body), `hang` (never answers), `trickle` (a byte now and then). `server.old`
makes it speak protocol v0 alone, which gives no commit that no ref leads to.
Odd trees: `repo.tree([(mode, name, object id), ...])` stores names that git refuses,
`repo.commit_tree(tree)` commits them. Its verbs are in gitrepository.py.
"""

from __future__ import annotations

import base64
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .certificates import self_signed
from .gitrepository import NOBODY, Repository

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request that came, and what it was answered."""

    method: str
    path: str
    authorization: str | None
    status: int


Fault = Callable[["_Handler"], int]


@dataclass
class GitServer:
    """The server; see the top of the file."""

    folder: Path
    port: int = 0
    tls: bool = False
    old: bool = False
    requests: list[Asked] = field(default_factory=list)
    token: str | None = None
    faults: dict[str, Fault] = field(default_factory=dict)
    closing: threading.Event = field(default_factory=threading.Event)
    # Called in the middle of each request: the client waits, and can be looked at.
    on_request: Callable[[], None] | None = None

    @property
    def host(self) -> str:
        """Return host and port, as GIT_HOSTS names it."""
        return f"{HOST}:{self.port}"

    @property
    def ca_file(self) -> Path:
        """Return the certificate to trust, with tls=True."""
        return self.folder / "certificate.pem"

    @property
    def protocol(self) -> str:
        """Return "http" or "https"."""
        return "https" if self.tls else "http"

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of BUILDQUEUE with which it may be fetched from."""
        return {"GIT_PROTOCOLS": [self.protocol], "GIT_HOSTS": [self.host]}

    def url(self, name: str) -> str:
        """Return the address of a repository, also of one that does not exist."""
        return f"{self.protocol}://{self.host}/{name}.git"

    def repository(self, name: str) -> Repository:
        """Return the repository, made empty if it is new; its main branch is main."""
        found = Repository(self.folder / "repositories" / f"{name}.git")
        if not found.folder.exists():
            found.folder.mkdir(parents=True)
            found.git("init", "-q", "--bare", "--template=", "-b", "main")
        return found

    def require_token(self, token: str | None) -> None:
        """Answer 401 to whoever does not show it; None: let everybody in again."""
        self.token = token

    # -- faults -------------------------------------------------------------------

    def redirect(self, name: str, to: str) -> None:
        """Send requests for the repository elsewhere: `to` is a repository's URL."""
        self.faults[name] = lambda handler: handler.send(
            302, {"Location": to + handler.path.partition(".git")[2]}
        )

    def answer(
        self, name: str, status: int, body: bytes = b"", content_type: str = "text/html"
    ) -> None:
        """Answer every request for the repository like this."""
        self.faults[name] = lambda handler: handler.send(
            status, {"Content-Type": content_type}, body
        )

    def hang(self, name: str) -> None:
        """Take requests for the repository and never answer them."""
        self.faults[name] = lambda handler: handler.hang()

    def trickle(self, name: str) -> None:
        """Answer requests for the repository with a byte now and then, without end."""
        self.faults[name] = lambda handler: handler.trickle()

    def heal(self, name: str) -> None:
        """Answer as usual again."""
        self.faults.pop(name, None)

    def admits(self, authorization: str | None) -> bool:
        """Tell whether the header shows the token."""
        if self.token is None:
            return True
        scheme, _, shown = (authorization or "").partition(" ")
        if scheme == "Basic":
            shown = base64.b64decode(shown).decode().partition(":")[2]
        return shown == self.token


class _Handler(BaseHTTPRequestHandler):
    """One connection; requests go to `git http-backend` unless there is a fault."""

    protocol_version = "HTTP/1.1"
    git: GitServer

    def do_GET(self) -> None:
        """Answer a question for refs, or a file of the dumb protocol."""
        self._answer()

    def do_POST(self) -> None:
        """Answer a request for objects."""
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        authorization = self.headers.get("Authorization")
        name = self.path.partition(".git")[0].strip("/")
        at = len(self.git.requests)
        asked = Asked(
            method=self.command, path=self.path, authorization=authorization, status=0
        )
        self.git.requests.append(asked)
        if self.git.on_request is not None:
            self.git.on_request()
        if fault := self.git.faults.get(name):
            status = fault(self)
        elif not self.git.admits(authorization):
            status = self.send(401, {"WWW-Authenticate": 'Basic realm="git"'})
        else:
            status = self._backend(body)
        self.git.requests[at] = Asked(
            method=self.command,
            path=self.path,
            authorization=authorization,
            status=status,
        )

    def _backend(self, body: bytes) -> int:
        path, _, query = self.path.partition("?")
        told = NOBODY | {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.git.folder / "repositories"),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        if not self.git.old:
            told["GIT_PROTOCOL"] = self.headers.get("Git-Protocol", "")
        ran = subprocess.run(
            ["git", "http-backend"], input=body, capture_output=True, env=told
        )
        head, _, content = ran.stdout.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines if line)
        status = int(headers.pop("Status", "200").split()[0])
        return self.send(status, headers, content)

    def send(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> int:
        """Send an answer; return its status."""
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        return status

    def hang(self) -> int:
        """Send nothing until the server is closed."""
        self.git.closing.wait()
        return 0

    def trickle(self) -> int:
        """Send one endless answer."""
        self.send_response(200)
        kind = "application/x-git-upload-pack-advertisement"
        self.send_header("Content-Type", kind)
        self.end_headers()
        while not self.git.closing.wait(0.1):
            self.wfile.write(b"0")
        return 0

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


class _Listener(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that is ended leaves in the middle of an answer."""


@contextmanager
def git_server(*, tls: bool = False) -> Iterator[GitServer]:
    """Serve repositories from an empty folder; both are gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="buildqueue-git-server-"))
    server = GitServer(folder, tls=tls)
    handler = type("Handler", (_Handler,), {"git": server})
    listener = _Listener((HOST, 0), handler)
    server.port = listener.server_port
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        key_file = self_signed(server.ca_file, address=HOST)
        context.load_cert_chain(server.ca_file, key_file)
        listener.socket = context.wrap_socket(listener.socket, server_side=True)
    thread = threading.Thread(target=listener.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        listener.shutdown()
        listener.server_close()
        thread.join()
        shutil.rmtree(folder)


def dead_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
