"""Does an address ever fail to answer? Asked every 50 ms, and never asked again.

Every other request comes on a connection that is kept, the others on one of their own.
Whatever is no 200 is a failed request, and so is a connection that breaks.
"""

from __future__ import annotations

import http.client
import json
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlsplit

EVERY_SECONDS = 0.05
PATIENCE_SECONDS = 60.0


@dataclass
class Prober:
    """Polls one address from its start until it is stopped."""

    url: str
    asked: int = 0
    versions: list[str] = field(default_factory=list)  # that answered, one after other
    failed: list[tuple[datetime, str]] = field(default_factory=list)
    _kept: http.client.HTTPConnection | None = None
    _stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to poll, in a thread."""
        self._thread = threading.Thread(target=self._poll, name=f"probes {self.url}")
        self._thread.start()

    def stop(self) -> None:
        """Poll no more."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        if self._kept is not None:
            self._kept.close()

    def _poll(self) -> None:
        while not self._stopped.wait(EVERY_SECONDS):
            keeps = self.asked % 2 == 1
            self.asked += 1
            begun = datetime.now(UTC)
            try:
                version = self._ask(keeps=keeps)
            except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
                kind = "kept" if keeps else "new"
                self.failed.append((begun, f"{kind} connection: {error!r}"))
                self._kept = None
                continue
            if version not in self.versions[-1:]:
                self.versions.append(version)

    def _ask(self, *, keeps: bool) -> str:
        if not keeps:
            return self._version_at(self._connection(), {"Connection": "close"})
        if self._kept is None:
            self._kept = self._connection()
        return self._version_at(self._kept, {})

    def _connection(self) -> http.client.HTTPConnection:
        at = urlsplit(self.url)
        return http.client.HTTPConnection(
            at.hostname or "", at.port, timeout=PATIENCE_SECONDS
        )

    def _version_at(
        self, connection: http.client.HTTPConnection, headers: dict[str, str]
    ) -> str:
        try:
            connection.request("GET", "/", headers=headers)
            answer = connection.getresponse()
            body = answer.read()
        except BaseException:
            connection.close()
            raise
        if headers:
            connection.close()
        if answer.status != 200:
            raise ValueError(f"{answer.status}: {body[:200]!r}")
        return str(json.loads(body)["version"])
