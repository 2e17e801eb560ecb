"""Is there an MCP server, and which tools does it offer? Asked by the official client.

A real `initialize` and a whole `tools/list` over streamable HTTP, bounded in time, bytes
and tools. `Unavailable` when nobody answers yet, `Rejected` when somebody answers who
does not speak MCP. Changes nothing anywhere. Needs the extra `mcp`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import ValidationError

from buildqueue.backends.base import InstanceStatus, LineCallback, Runtime
from buildqueue.backends.localruntime import health
from buildqueue.backends.localruntime.listening import listeners, owns
from buildqueue.backends.localruntime.ports import LOOPBACK
from buildqueue.backends.mcptraffic import MOST_BYTES, Traffic, http_client, quiet
from buildqueue.exceptions import BackendError, Rejected, Unavailable

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Tool as TheirTool

Mask: TypeAlias = Callable[[str], str]

PATH = "/mcp"
MOST_TOOLS = 1000
MOST_PAGES = 100
LONGEST_NAME = 255
DEEPEST_SCHEMA = 64
ASK_SECONDS = 10.0
# A server that listens before its routes are there gets a second and a third look.
PROTOCOL_TRIES = 3

# What a server says that starts a conversation otherwise than by `initialize`.
_NO_INITIALIZE = frozenset({-32601, -32022})
_PARSE_ERROR = -32700
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool, as the server describes it."""

    name: str
    title: str | None
    description: str | None
    input_schema: dict[str, Any]


def probe(
    url: str, *, seconds: float = ASK_SECONDS, mask: Mask = str
) -> tuple[Tool, ...]:
    """Shake hands with the server at the address and return its tools.

    What the server says of its trouble is masked before it is cut short.
    """
    demand_client()
    import anyio

    traffic = Traffic(mask=mask)

    async def ask() -> tuple[Tool, ...]:
        with anyio.fail_after(seconds):
            return await _converse(url, seconds, traffic)

    with quiet():
        try:
            return anyio.run(ask)
        except BaseExceptionGroup as group:
            raise _verdict(_first(group), traffic, seconds) from None
        except Exception as error:  # the client tells trouble in a dozen classes
            raise _verdict(error, traffic, seconds) from None


def wait_ready(
    runtime: Runtime,
    workload_id: str,
    instance_id: str,
    *,
    tries: int = 30,
    interval: float = 3.0,
    on_line: LineCallback,
    cancelled: Callable[[], bool],
    mask: Mask = str,
) -> tuple[Tool, ...]:
    """Ask the instance until it answers, has exited, or the tries are used up.

    Rejected with `health_timeout`, `mcp_protocol_error`, or what has ended it; Cancelled
    as soon as `cancelled()` is true.
    """
    demand_client()
    told, protocol_faults = "it was never asked", 0
    for pause in health.pauses(tries, interval):
        found = health.instance_of(runtime, workload_id, instance_id)
        if found is None or found.state in health.OVER:
            report = health.over(runtime, workload_id, instance_id, found)
            assert report.code is not None  # an end has always one
            raise Rejected(
                report.code,
                f"the new instance does not stay up: {report.reason}",
                exit_code=report.exit_code,
            )
        try:
            tools = ask_instance(found, mask=mask)
        except BackendError as error:
            rejected = isinstance(error, Rejected)
            protocol_faults = protocol_faults + 1 if rejected else 0
            if str(error) != told:
                told = str(error)
                on_line(f"health: {told}")
            if protocol_faults == PROTOCOL_TRIES:
                raise
        else:
            on_line(f"health: it speaks MCP; tools that it offers: {len(tools)}")
            return tools
        health.pause(pause, cancelled)
    raise Rejected("health_timeout", f"not ready after {tries} tries: {told}")


def demand_client() -> None:
    """Raise Unavailable where the client is not installed: another worker may have it."""
    if find_spec("mcp") is None:
        raise Unavailable(
            "mcp_client_missing",
            "this worker has no MCP client: install django-buildqueue[mcp] on its host",
        )


def ask_instance(instance: InstanceStatus, *, mask: Mask = str) -> tuple[Tool, ...]:
    """Probe the instance's own port, which its own processes have to hold."""
    if instance.pid is None or instance.port is None:
        raise Unavailable("mcp_not_ready", "it is still being started")
    inodes = listeners(instance.port)
    if not inodes:
        raise Unavailable(
            "mcp_not_ready", f"nothing listens on port {instance.port} yet"
        )
    if owns(inodes, instance.pid) is False:
        raise Unavailable(
            "mcp_not_ready",
            f"a process outside the instance listens on port {instance.port}",
        )
    return probe(f"http://{LOOPBACK}:{instance.port}{PATH}", mask=mask)


async def _converse(url: str, seconds: float, traffic: Traffic) -> tuple[Tool, ...]:
    """Begin as servers of every age understand; the newest have their own beginning."""
    from mcp import MCPError

    try:
        return await _list(url, seconds, traffic, mode="legacy")
    except (MCPError, BaseExceptionGroup) as error:
        first = _first(error)
        if not isinstance(first, MCPError) or first.code not in _NO_INITIALIZE:
            raise
    return await _list(url, seconds, traffic, mode="auto")


async def _list(
    url: str, seconds: float, traffic: Traffic, *, mode: str
) -> tuple[Tool, ...]:
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with http_client(seconds, traffic) as http:
        transport = streamable_http_client(
            url, http_client=http, max_sse_event_size=MOST_BYTES
        )
        client = Client(transport, mode=mode, read_timeout_seconds=seconds, cache=None)
        async with client:
            return await _pages(client)


async def _pages(client: Client) -> tuple[Tool, ...]:
    found: dict[str, Tool] = {}
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            found.setdefault(tool.name, _checked(tool))
        if len(found) > MOST_TOOLS:
            raise _no_mcp(f"it offers more than {MOST_TOOLS} tools")
        if not page.next_cursor:
            return tuple(found.values())
        cursor = page.next_cursor
    raise _no_mcp(f"its list of tools has more than {MOST_PAGES} pages")


def _checked(tool: TheirTool) -> Tool:
    if not 0 < len(tool.name) <= LONGEST_NAME:
        raise _no_mcp(f"a tool's name must have 1 to {LONGEST_NAME} characters")
    if not _is_within(tool.input_schema, DEEPEST_SCHEMA):
        raise _no_mcp(
            f"the schema of the tool {tool.name!r} is nested deeper than "
            f"{DEEPEST_SCHEMA} levels"
        )
    try:
        json.dumps(tool.input_schema, allow_nan=False)
    except ValueError:
        raise _no_mcp(
            f"the schema of the tool {tool.name!r} holds a number that is none"
        ) from None
    return Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
    )


def _is_within(value: object, depth: int) -> bool:
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(_is_within(each, depth - 1) for each in inner)


def _verdict(
    error: BaseException, traffic: Traffic, seconds: float
) -> BackendError | BaseException:
    """Return what the trouble means: not there yet, or no MCP server."""
    import httpx2
    from mcp import MCPError

    if isinstance(error, BackendError) or not isinstance(error, Exception):
        return error
    if traffic.received > MOST_BYTES:
        return _no_mcp(f"it answered with more than {MOST_BYTES} bytes")
    if isinstance(error, TimeoutError | httpx2.TimeoutException):
        return _not_yet(f"it did not answer within {seconds:g} s")
    if traffic.status in _PASSING:
        return _not_yet(f"it answered with HTTP status {traffic.status}")
    if isinstance(error, MCPError) and error.code == _PARSE_ERROR:
        return _no_mcp(_shortened("its answer is no JSON-RPC message", traffic))
    if isinstance(error, MCPError):
        return _no_mcp(_shortened(f"it refused: {error.message}", traffic))
    if isinstance(error, httpx2.RemoteProtocolError) or traffic.status is not None:
        return _no_mcp(_shortened(_told(error), traffic))
    return _not_yet(_shortened(_told(error), traffic))


def _told(error: BaseException) -> str:
    if isinstance(error, ValidationError):  # its own words repeat parts of the answer
        faults = error.errors(include_url=False, include_input=False)
        places = (".".join(map(str, fault["loc"])) for fault in faults)
        told = (
            f"{at}: {fault['msg']}" for at, fault in zip(places, faults, strict=True)
        )
        return "; ".join(told)
    return str(error) or type(error).__name__


def _shortened(text: str, traffic: Traffic) -> str:
    shown = " ".join(traffic.mask(text).split())[:300]
    known = traffic.status is None or 200 <= traffic.status < 300
    return shown if known else f"{shown} (HTTP status {traffic.status})"


def _not_yet(why: str) -> Unavailable:
    return Unavailable("mcp_not_ready", f"the MCP server is not ready: {why}")


def _no_mcp(why: str) -> Rejected:
    return Rejected(
        "mcp_protocol_error",
        f"{PATH} does not speak MCP over streamable HTTP as it should: {why}",
    )


def _first(error: BaseException) -> BaseException:
    """Return the first single error in groups of groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
