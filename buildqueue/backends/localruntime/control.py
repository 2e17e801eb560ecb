"""How is the daemon spoken to? One JSON line each way over a private unix socket.

The caller has to be the daemon's own user or root, and no instance. Whatever arrives is
answered or cut off: nothing that a caller sends, or fails to send, ends the daemon.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from buildqueue.exceptions import BackendError, Rejected

logger = logging.getLogger(__name__)

REQUEST_BYTES = 1024 * 1024
_REQUEST_SECONDS = 10.0
_ANSWER_SECONDS = 10.0
_CLOSING_SECONDS = 5.0

Answer = Mapping[str, object]
Call = Callable[[str, Mapping[str, object]], Awaitable[object]]


class Control:
    """Answers the control socket by calling `call(verb, arguments)`."""

    def __init__(self, call: Call, may_ask: Callable[[int], bool]) -> None:
        self._call, self._may_ask = call, may_ask
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def serve(self, listening: socket.socket) -> None:
        """Start answering."""
        self._server = await asyncio.start_unix_server(
            self._accept, sock=listening, limit=REQUEST_BYTES
        )

    async def close(self) -> None:
        """Take no more callers, and give those who are there some seconds."""
        if self._server is not None:
            self._server.close()
        if self._connections:
            await asyncio.wait(self._connections, timeout=_CLOSING_SECONDS)

    def _accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.create_task(self._connected(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _connected(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            answer = await self._answer(reader, writer)
            if answer is not None:
                writer.write(json.dumps(answer).encode() + b"\n")
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await writer.drain()
        except (OSError, TimeoutError):
            return  # the caller is gone; it will repeat what it asked
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Answer | None:
        if not self._is_allowed(writer.get_extra_info("socket")):
            return _error("rejected", "forbidden", "this caller may not ask")
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                line = await reader.readline()
        except ValueError:
            return _error("rejected", "too_large", "a request has at most one MiB")
        if not line:
            return None  # somebody looked whether the daemon lives
        try:
            verb, arguments = _parse(line)
            return {"ok": True, "result": await self._call(verb, arguments)}
        except Rejected as error:
            return _error("rejected", error.code, str(error))
        except BackendError as error:
            return _error("unavailable", error.code, str(error), error.detail)
        except Exception:
            # One verb that fails in a way nobody foresaw must not end all workloads.
            logger.exception("a request failed")
            return _error(
                "unavailable", "runtime_error", "the runtime failed; see its daemon.log"
            )

    def _is_allowed(self, peer: socket.socket) -> bool:
        form = "3i"
        packed = peer.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(form)
        )
        pid, uid, _ = struct.unpack(form, packed)
        return uid in (0, os.geteuid()) and self._may_ask(pid)


def _parse(line: bytes) -> tuple[str, Mapping[str, object]]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        raise Rejected("malformed_request", "a request is one line of JSON") from None
    match request:
        case {"verb": str(verb), "arguments": dict(arguments)}:
            return verb, arguments
    raise Rejected("malformed_request", "a request has a verb and arguments")


def _error(kind: str, code: str, message: str, detail: str = "") -> Answer:
    return {
        "ok": False,
        "error": kind,
        "code": code,
        "message": message,
        "detail": detail,
    }
