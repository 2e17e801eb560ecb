"""Which port is free? The wanted one, or the next that nobody listens on."""

from __future__ import annotations

import socket


def free_port(wanted: int, *, tries: int = 200) -> int:
    """Return the first free loopback port from `wanted` on."""
    for port in range(wanted, min(wanted + tries, 65536)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise SystemExit(f"no free port from {wanted} to {wanted + tries}")
