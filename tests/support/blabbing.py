"""What does a source do that keeps nothing to itself? It tells its secrets in every form.

Agents and servers tell their environment to their output, their card, their tools and
their errors; a build tells what it was made to know. No secret stands in a source.
"""

from __future__ import annotations

import io
from typing import Literal

from .zips import zipped

Manner = Literal[
    "well",  # tells, then answers; GET /fall ends it
    "dies",  # tells, then ends
    "garbled",  # tells, then answers what is no HTTP
]
ServerManner = Literal[
    "well",  # describes its tools with all it knows
    "turns",  # does so once, and answers with errors from then on
    "refuses",  # answers with errors
    "wrong",  # answers with what is no list of tools
    "dies",
]

# In parts without a line end, inside other text, and in the ways of printing things.
_TELLING = r"""
import base64, json, os, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, quote_plus

OWN = {name: value for name, value in os.environ.items() if name.startswith("MY_")}


def forms(value):
    raw = value.encode()
    yield from (value, repr(value), ascii(value), json.dumps(value), str([value]))
    yield from (base64.b64encode(raw), base64.urlsafe_b64encode(raw), raw.hex())
    for before in (b"a", b"ab"):
        yield base64.b64encode(before + raw + b"c")
    yield from (quote(value), quote(value, safe=""), quote_plus(value), raw.hex().upper())
    yield "http://me:" + quote(value, safe="").replace("%2F", "%2f") + "@host/"


def tell():
    print("it starts with", os.environ, flush=True)
    for name, value in OWN.items():
        for form in forms(value):
            told = form.decode() if isinstance(form, bytes) else form
            print(name, told, flush=True)
        cut = len(value) // 2
        for part in (value[:3], value[3:cut], value[cut:], "."):
            sys.stdout.write(part)
            sys.stdout.flush()
            threading.Event().wait(0.05)
    sys.stdout.flush()


def all_known():
    return " and ".join(OWN.values())


tell()
"""

_AGENT = (
    _TELLING
    + r"""
MANNER = {manner!r}
CARD = {
    "name": "blab",
    "description": all_known(),
    "skills": [{"id": name, "tags": [value]} for name, value in OWN.items()],
    "provider": {value: name for name, value in OWN.items()},
}


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        if MANNER == "garbled":
            self.wfile.write(" ".join(all_known().split("\n")).encode() + b"\r\n")
            return
        if self.path == "/fall":
            os._exit(3)
        known = CARD if self.path.startswith("/.well-known") else dict(os.environ)
        body = json.dumps(known).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


if MANNER == "dies":
    sys.exit("and ends, knowing " + all_known())
ThreadingHTTPServer((os.environ["HOST"], int(os.environ["PORT"])), Answer).serve_forever()
"""
)

_SERVER = (
    _TELLING
    + r"""
MANNER = {manner!r}
asked = []


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "blab", "version": "1"},
        }
    if method != "tools/list":
        return None
    asked.append(method)
    if MANNER == "refuses" or (MANNER == "turns" and len(asked) > 1):
        return None
    if MANNER == "wrong":
        return {"tools": [{"name": "x", "inputSchema": v} for v in OWN.values()]}
    schema = {"type": "object", "properties": {v: {"const": v} for v in OWN.values()}}
    return {
        "tools": [
            {"name": n, "title": v, "description": v + v, "inputSchema": schema}
            for n, v in OWN.items()
        ]
    }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.tell(405, {})

    do_DELETE = do_GET

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in message:
            return self.tell(202, None)
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        result = answer(message["method"], message.get("params") or {})
        if result is None:
            reply["error"] = {"code": -32000, "message": "I have " + all_known()}
        else:
            reply["result"] = result
        self.tell(200, reply)

    def tell(self, status, value):
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


if MANNER == "dies":
    sys.exit("and ends, knowing " + all_known())
ThreadingHTTPServer((os.environ["HOST"], int(os.environ["PORT"])), Handler).serve_forever()
"""
)

# The backend of a package that needs nothing from an index. What it was made to know
# stands there in disguise, and also where a long line is cut in two.
_BACKEND = r"""
import base64, json, os, sys
from urllib.parse import quote

KNOWN = [bytes(b ^ 0x55 for b in bytes.fromhex(each)).decode() for each in {known!r}]
LONGEST = 16 * 1024


def get_requires_for_build_wheel(config_settings=None):
    print(os.environ)
    for value in KNOWN:
        raw = value.encode()
        print("plain", value)
        print("others", repr(value), json.dumps(value), base64.b64encode(raw), raw.hex())
        print("url", "http://me:" + quote(value, safe="") + "@host/")
        with open("/proc/%d/fd/1" % os.getppid(), "w") as out:
            # By pip, which would cut it otherwise.
            cut = len(value) * 3 // 5
            out.write("x" * (LONGEST - cut) + value + "\n")
            out.write("é" * ((LONGEST - cut) // 2) + value + "\n")
    sys.exit("error: it ends, knowing " + " ".join(KNOWN))


build_wheel = prepare_metadata_for_build_wheel = get_requires_for_build_wheel
"""
_PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "blab"
version = "1"
"""


def agent(manner: Manner = "well") -> dict[str, str]:
    """Return the files of an agent that tells its environment."""
    return {"main.py": _filled(_AGENT, manner)}


def agent_zip(manner: Manner = "well") -> io.BytesIO:
    """Return the same as a zip."""
    return zipped(agent(manner))


def server_zip(manner: ServerManner = "well") -> io.BytesIO:
    """Return an MCP server that tells its environment."""
    return zipped({"main.py": _filled(_SERVER, manner)})


def building_zip(*known: str) -> io.BytesIO:
    """Return an agent whose build fails, telling these texts."""
    hidden = [bytes(b ^ 0x55 for b in each.encode()).hex() for each in known]
    return zipped(
        {
            "main.py": _filled(_AGENT, "well"),
            "requirements.txt": "./package\n",
            "package/pyproject.toml": _PROJECT,
            "package/backend.py": _BACKEND.replace("{known!r}", repr(hidden)),
        }
    )


def _filled(source: str, manner: str) -> str:
    return source.replace("{manner!r}", repr(manner))
