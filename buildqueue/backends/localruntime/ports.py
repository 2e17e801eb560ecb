"""Which port is free? Ports come from a reserved range and never from the kernel's.

A port that anything is bound to is stepped over, and so is one that a workload keeps
as its address, whether or not it listens now. The search begins somewhere in the range and
goes on after the last port given: a port just left is not the next one used, and two
runtimes on one machine do not reach for the same port between a look and a bind.
"""

from __future__ import annotations

import logging
import random
import socket
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from buildqueue.exceptions import Unavailable

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
DEFAULT_RANGE = "20000-29999"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortRange:
    """An inclusive range of ports."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read "20000-29999"; raise ValueError with what is wrong."""
        first, dash, last = text.partition("-")
        if not (dash and first.strip().isdigit() and last.strip().isdigit()):
            raise ValueError(f"a port range looks like {DEFAULT_RANGE}, not {text!r}")
        found = cls(first=int(first), last=int(last))
        if not 1024 <= found.first <= found.last <= 65535:
            raise ValueError("ports go from 1024 to 65535, the lower one first")
        return found

    def __contains__(self, port: int) -> bool:
        return self.first <= port <= self.last


def ephemeral_range() -> PortRange | None:
    """Return the range from which the kernel gives ports to outgoing connections."""
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii")
    except OSError:
        return None
    first, last = text.split()
    return PortRange(first=int(first), last=int(last))


class Ports:
    """Gives out free ports of a range, without those the kernel hands out itself."""

    def __init__(self, reserved: PortRange, kernels: PortRange | None) -> None:
        every = range(reserved.first, reserved.last + 1)
        self._usable = [port for port in every if not (kernels and port in kernels)]
        self._position = random.randrange(max(len(self._usable), 1))  # noqa: S311 - no secret
        skipped = len(every) - len(self._usable)
        if skipped:
            logger.warning(
                "%d ports are skipped: they are in the kernel's own range",
                skipped,
            )
        if not self._usable:
            raise ValueError("the kernel's own port range covers all of these ports")

    def free(self, taken: Set[int]) -> int:
        """Return a port that is not taken and to which nothing is bound now."""
        size = len(self._usable)
        for step in range(size):
            port = self._usable[(self._position + step) % size]
            if port not in taken and can_bind(port):
                self._position = (self._position + step + 1) % size
                return port
        raise Unavailable("no_free_port", "every port of the reserved range is in use")


def can_bind(port: int) -> bool:
    """Tell whether a plain bind works, without taking over what is winding down."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
