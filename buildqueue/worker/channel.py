"""How do the processes of a worker talk? One JSON object a line over a socket."""

from __future__ import annotations

import json
import socket
from typing import Any

Message = dict[str, Any]


class Channel:
    """One end of a socket pair; `closed` once the other end is gone."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = b""
        self.closed = False

    @classmethod
    def of_fd(cls, fd: int) -> Channel:
        """Take over an inherited descriptor."""
        return cls(socket.socket(fileno=fd))

    def fileno(self) -> int:
        """Return the descriptor, for a selector."""
        return self._sock.fileno()

    def send(self, **message: Any) -> None:
        """Send one message; a reader that is gone is noted, not raised."""
        try:
            self._sock.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self.closed = True

    def receive(self) -> list[Message]:
        """Wait for bytes; return the whole messages among all received so far."""
        try:
            piece = self._sock.recv(65536)
        except OSError:
            piece = b""
        if not piece:
            self.closed = True
            return []
        *lines, self._buffer = (self._buffer + piece).split(b"\n")
        return [json.loads(line) for line in lines]

    def next(self) -> Message | None:
        """Wait for the next single message; None when the other end is gone.

        For a side that is never sent two messages without answering in between.
        """
        while not self.closed:
            if found := self.receive():
                return found[0]
        return None

    def close(self) -> None:
        """Close this end."""
        self.closed = True
        self._sock.close()
