"""How does a test get an MCP server? As a small source, to be zipped and built.

The stdlib ones answer JSON to POST /mcp, well enough for the official client; the real
one is made with the `mcp` package, which its requirements install. `ask` and `call` talk
to any of them with that client.
"""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from .zips import zipped

Manner = Literal[
    "ready",
    "slow",  # listens at once, speaks MCP after a while
    "held",  # answers 503 until somebody gets /release
    "silent",  # never listens
    "crashes",
    "plain",  # answers HTTP, and not MCP
    "unwell",  # answers 503
    "modern",  # knows no initialize
    "endless",  # its list of tools has no last page
    "huge",
    "deep",  # a schema nested deeper than anybody reads
    "nameless",  # a tool without a name
]

_SOURCE = """
import json, os, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

VERSION, MANNER, TOOLS, PAGE = {version!r}, {manner!r}, {tools!r}, {page!r}
NEVER, RELEASED = threading.Event(), threading.Event()
asked = []

for name in {printed!r}:
    print(name, os.environ.get(name), flush=True)
if MANNER == "crashes":
    sys.exit("cannot open its files")
if MANNER == "silent":
    NEVER.wait()


def tool(name):
    schema = {{"type": "object", "properties": {{"text": {{"type": "string"}}}}}}
    if MANNER == "huge":
        schema["description"] = "x" * (2 * 1024 * 1024)
    if MANNER == "deep":
        for _ in range(80):
            schema = {{"type": "object", "properties": {{"x": schema}}}}
    return {{
        "name": "" if MANNER == "nameless" else name,
        "title": name.title(),
        "description": "What " + name + " does",
        "inputSchema": schema,
    }}


def listed(params):
    start = int(params.get("cursor") or 0)
    size = PAGE or len(TOOLS)
    page = {{"tools": [tool(name) for name in TOOLS[start : start + size]]}}
    if MANNER == "endless":
        page["nextCursor"] = "0"
    elif start + size < len(TOOLS):
        page["nextCursor"] = str(start + size)
    return page


def called(params):
    told = {{
        "version": VERSION,
        "pid": os.getpid(),
        "env": dict(os.environ),
        "arguments": params.get("arguments"),
    }}
    return {{"content": [{{"type": "text", "text": json.dumps(told)}}]}}


def answer(method, params):
    if method == "initialize" and MANNER != "modern":
        return {{
            "protocolVersion": params["protocolVersion"],
            "capabilities": {{"tools": {{}}}},
            "serverInfo": {{"name": "sample", "version": VERSION}},
        }}
    if method == "server/discover" and MANNER == "modern":
        return {{
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {{"tools": {{}}}},
            "ttlMs": 0,
            "cacheScope": "public",
        }}
    if method == "tools/list":
        extra = {{"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}}
        return listed(params) | (extra if MANNER == "modern" else {{}})
    if method == "tools/call":
        return called(params)
    return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/release":
            RELEASED.set()
            return self.tell(200, {{}})
        return self.tell(405, {{"error": "no stream"}})

    do_DELETE = do_GET

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked.append(self.path)
        if self.path != "/mcp":
            return self.tell(404, {{"error": "not here"}})
        if MANNER == "plain":
            return self.tell(200, {{"hello": "world"}})
        if MANNER == "held" and not RELEASED.is_set():
            return self.tell(503, {{"error": "later"}})
        if MANNER == "unwell" or (MANNER == "slow" and len(asked) < 4):
            return self.tell(503, {{"error": "later"}})
        message = json.loads(body)
        if "id" not in message:
            return self.tell(202, None)
        result = answer(message["method"], message.get("params") or {{}})
        reply = {{"jsonrpc": "2.0", "id": message["id"]}}
        if result is None:
            reply["error"] = {{"code": -32601, "message": "no such method"}}
        else:
            reply["result"] = result
        return self.tell(200, reply)

    def tell(self, status, value):
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True


Server((os.environ["HOST"], int(os.environ["PORT"])), Handler).serve_forever()
"""

REAL = '''
import os
from mcp.server.mcpserver import MCPServer

server = MCPServer("real")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


server.run("streamable-http", host=os.environ["HOST"], port=int(os.environ["PORT"]))
'''


def source(
    *,
    version: str = "1.0.0",
    manner: Manner = "ready",
    tools: Sequence[str] = ("echo", "tell"),
    page: int = 0,
    printed: Sequence[str] = (),
) -> str:
    """Return the program of a small server; `printed` are variables it prints."""
    return _SOURCE.format(
        version=version,
        manner=manner,
        tools=list(tools),
        page=page,
        printed=list(printed),
    )


def server_zip(*, files: Mapping[str, str] | None = None, **options: Any) -> io.BytesIO:
    """Return the zip of a small server."""
    return zipped({"main.py": source(**options), **(files or {})})


def real_zip() -> io.BytesIO:
    """Return the zip of a server made with the `mcp` package."""
    return zipped({"main.py": REAL, "requirements.txt": "mcp>=2,<3\n"})


def tools_at(url: str) -> list[str]:
    """Return the names of the tools that the official client finds there."""

    async def ask() -> list[str]:
        async with _client(url) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    return anyio.run(ask)


def call(url: str, name: str, arguments: Mapping[str, Any] | None = None) -> str:
    """Call a tool with the official client and return its text."""

    async def ask() -> str:
        async with _client(url) as client:
            result = await client.call_tool(name, dict(arguments or {}))
            return str(getattr(result.content[0], "text", ""))

    return anyio.run(ask)


@asynccontextmanager
async def _client(url: str) -> AsyncIterator[Client]:
    # A proxy in the environment of the tests must not be asked for loopback.
    async with (
        httpx2.AsyncClient(trust_env=False, timeout=30.0) as http,
        Client(streamable_http_client(url, http_client=http), cache=None) as client,
    ):
        yield client
