"""What is another host, on one machine? A network of its own, that can be cut.

As root a network namespace with a pair of virtual interfaces: cut, packets are lost, and
nobody is told. Elsewhere the bridge to the database is frozen, which loses the database
but not the counter. Ending it removes all of it; what a killed run left, the next removes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SPACES = Path("/var/run/netns")
PREFIX = "bqc"  # of a namespace's name; the rest is the pid of the run that made it
NET = f"10.213.{os.getpid() % 250}"
OURS, THEIRS = f"{NET}.1", f"{NET}.2"
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The way from the other host to this one."""

    bridge: subprocess.Popen[str]
    port: int  # of the bridge
    space: str | None  # the namespace; None where there is none

    @property
    def address(self) -> str:
        """Return this host's address, as the other one sees it."""
        return OURS if self.space else LOOPBACK

    @property
    def prefix(self) -> list[str]:
        """Return what goes before a command that is to run there."""
        return ["nsenter", f"--net={SPACES / self.space}"] if self.space else []

    def cut(self) -> None:
        """Lose everything that is sent, either way, and say nothing."""
        if self.space:
            _ip("link", "set", _end(self.space), "down")
        else:
            self.bridge.send_signal(signal.SIGSTOP)

    def mend(self) -> None:
        """Have it whole again; what was sent meanwhile is sent again by the kernel."""
        if self.space:
            _ip("link", "set", _end(self.space), "up")
        else:
            self.bridge.send_signal(signal.SIGCONT)


@contextmanager
def other_host(socket: Path) -> Iterator[Network]:
    """Have another host meanwhile, from which the server can be reached."""
    space = _make_space()
    address = OURS if space else LOOPBACK
    command = [sys.executable, "-m", "tests.chaos.bridge", str(socket), address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as bridge:
        try:
            assert bridge.stdout is not None
            port = int(bridge.stdout.readline())
            yield Network(bridge=bridge, port=port, space=space)
        finally:
            bridge.send_signal(signal.SIGCONT)
            bridge.kill()
            if space:
                _remove(space)


def _make_space() -> str | None:
    if os.geteuid() != 0:
        return None
    name = f"{PREFIX}{os.getpid()}"
    end, peer = _end(name), ("peer", "name", "up0", "netns", name)
    steps = [
        ("netns", "add", name),
        ("link", "add", end, "type", "veth", *peer),
        ("addr", "add", f"{OURS}/30", "dev", end),
        ("link", "set", end, "up"),
        ("-n", name, "addr", "add", f"{THEIRS}/30", "dev", "up0"),
        ("-n", name, "link", "set", "up0", "up"),
        ("-n", name, "link", "set", "lo", "up"),
    ]
    try:
        _remove_left()
        for step in steps:
            _ip(*step)
        _wait_for_route(name)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no network of its own for the other host: {error}", flush=True)
        _remove(name)
        return None
    return name


def _remove_left() -> None:
    for space in SPACES.glob(f"{PREFIX}*"):
        pid = space.name.removeprefix(PREFIX)
        if pid.isdigit() and not Path("/proc", pid).exists():
            _remove(space.name)


def _wait_for_route(space: str) -> None:
    """Try the way once, so that a host that does not route is found out here."""
    deadline = time.monotonic() + 5
    ask = ["nsenter", f"--net={SPACES / space}", "ip", "route", "get", OURS]
    while subprocess.run(ask, capture_output=True, check=False).returncode:
        if time.monotonic() > deadline:
            raise OSError("no route to this host")
        time.sleep(0.05)


def _end(space: str) -> str:
    return f"{space}h"


def _remove(space: str) -> None:
    for step in (("link", "del", _end(space)), ("netns", "del", space)):
        subprocess.run(["ip", *step], capture_output=True, check=False)


def _ip(*step: str) -> None:
    subprocess.run(["ip", *step], capture_output=True, check=True)
