"""Who listens on this loopback port: the instance, or somebody else?

A port that answers proves nothing: another process may sit on it. The listening
socket's inode has to be held by the instance's own process tree.
"""

from __future__ import annotations

import os
from pathlib import Path

from buildqueue.backends.localruntime.identity import descendants

_LISTEN = "0A"
_EXACT = frozenset({"0100007F", "0000000000000000FFFF00000100007F"})
_WILDCARD = frozenset({"00000000", "0" * 32})


def listeners(port: int) -> frozenset[str]:
    """Return the inodes of the sockets that get connections to 127.0.0.1:port."""
    exact: set[str] = set()
    wildcard: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            address, _, number = fields[1].partition(":")
            if fields[3] != _LISTEN or int(number, 16) != port:
                continue
            if address in _EXACT:
                exact.add(fields[9])
            elif address in _WILDCARD:
                wildcard.add(fields[9])
    # The kernel prefers the socket bound to the very address over a wildcard.
    return frozenset(exact or wildcard)


def owns(inodes: frozenset[str], root: int) -> bool | None:
    """Tell whether the tree of the root holds all of these sockets; None: unknown."""
    held: set[str] = set()
    hidden = False
    for pid in (root, *(entry.pid for entry in descendants(root))):
        try:
            held |= _sockets(pid)
        except PermissionError:
            hidden = True
        except OSError:
            continue  # it ended while its descriptors were read
    if inodes and inodes <= held:
        return True
    return None if hidden else False


def _sockets(pid: int) -> set[str]:
    found = set()
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        try:
            link = os.readlink(f"{folder}/{name}")
        except FileNotFoundError:
            continue
        if link.startswith("socket:["):
            found.add(link[8:-1])
    return found
