"""How does the demo talk to the API? As any client would: over HTTP, with a token."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass
from typing import Any

# Loopback only: a proxy set for the machine has no business here.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class ApiError(Exception):
    """The API answered with a problem."""


@dataclass(frozen=True, slots=True)
class Client:
    """A caller of the API with a bearer token."""

    base: str
    token: str

    def get(self, path: str) -> dict[str, Any]:
        """Return the JSON at a path or link."""
        return self._send(urllib.request.Request(self._url(path)))

    def post(self, path: str, **fields: str) -> dict[str, Any]:
        """Post fields as JSON."""
        request = urllib.request.Request(
            self._url(path),
            data=json.dumps(fields).encode(),
            headers={"Content-Type": "application/json"},
        )
        return self._send(request)

    def upload(self, path: str, source: bytes, **fields: str) -> dict[str, Any]:
        """Post fields and a zip as a form."""
        boundary = uuid.uuid4().hex
        parts = [
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"'
            f"\r\n\r\n{text}\r\n"
            for name, text in fields.items()
        ]
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="source"; '
            'filename="agent.zip"\r\nContent-Type: application/zip\r\n\r\n'
        )
        body = "".join(parts).encode() + head.encode() + source
        request = urllib.request.Request(
            self._url(path),
            data=body + f"\r\n--{boundary}--\r\n".encode(),
            headers={"Content-Type": f"multipart/form-data; boundary={boundary}"},
        )
        return self._send(request)

    def _url(self, path: str) -> str:
        return path if path.startswith("http") else self.base + path

    def _send(self, request: urllib.request.Request) -> dict[str, Any]:
        request.add_header("Authorization", f"Bearer {self.token}")
        request.add_header("Accept", "application/json")
        try:
            with OPENER.open(request, timeout=60) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            text = error.read().decode("utf-8", "replace")
            raise ApiError(f"{request.full_url}: {error.code} {text[:500]}") from None
