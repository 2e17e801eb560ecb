"""How does a test cut a network? By a relay of bytes that stops to pass them on."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class Relay:
    """Passes connections on to an address; paused, it accepts and keeps silent."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server, selectors.EVENT_READ)
        self._passing = threading.Event()
        self._passing.set()
        self._stopping = False
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping = True
        self._passing.set()
        self._thread.join(10)
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def pause(self) -> None:
        """Pass nothing on from now on; what is sent waits."""
        self._passing.clear()

    def resume(self) -> None:
        """Pass on what has waited, and all that comes."""
        self._passing.set()

    def _work(self) -> None:
        while not self._stopping:
            self._passing.wait()
            for key, _ in self._selector.select(0.1):
                if not self._passing.is_set():
                    break
                if key.fileobj is self._server:
                    self._join()
                elif isinstance(key.fileobj, socket.socket):
                    self._pass_on(key.fileobj, key.data)

    def _join(self) -> None:
        ours, _ = self._server.accept()
        theirs = socket.create_connection(self._target)
        self._selector.register(ours, selectors.EVENT_READ, theirs)
        self._selector.register(theirs, selectors.EVENT_READ, ours)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        if source.fileno() < 0:
            return
        try:
            if piece := source.recv(65536):
                target.sendall(piece)
                return
        except OSError:
            pass  # one end is gone: so is the other
        for end in (source, target):
            with suppress(KeyError, ValueError):
                self._selector.unregister(end)
            end.close()
