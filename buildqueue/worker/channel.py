"""How do the processes of a worker talk? One JSON object a line over a socket.

No message is lost or cut: what arrives together is handed out one by one, and what was
sent before the other end died is still read.
"""

from __future__ import annotations

import json
import select
import socket
from collections import deque
from typing import Any

Message = dict[str, Any]


class Channel:
    """One end of a socket pair; `closed` once the other end is gone and all is read."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = b""
        self._waiting: deque[Message] = deque()
        self.closed = False

    @classmethod
    def of_fd(cls, fd: int) -> Channel:
        """Take over an inherited descriptor."""
        return cls(socket.socket(fileno=fd))

    def fileno(self) -> int:
        """Return the descriptor, for a selector."""
        return self._sock.fileno()

    def send(self, **message: Any) -> bool:
        """Send one message; false when the reader is gone, as reading will tell, too."""
        try:
            self._sock.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            return False
        return True

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

    def rest(self) -> list[Message]:
        """Return, without waiting, what the other end sent before it went away."""
        found: list[Message] = []
        while not self.closed and select.select([self._sock], [], [], 0)[0]:
            found += self.receive()
        return found

    def next(self) -> Message | None:
        """Wait for the next single message; None when the other end is gone."""
        while not self._waiting and not self.closed:
            self._waiting.extend(self.receive())
        return self._waiting.popleft() if self._waiting else None

    def close(self) -> None:
        """Close this end."""
        self.closed = True
        self._sock.close()
