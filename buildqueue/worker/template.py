"""How does a slot start in milliseconds? By a fork of a process that has all loaded.

The template is a child of the supervisor with Django set up and every handler imported,
before any thread or connection. On an order it forks a guardian, twice, so that the
guardian's parent is the supervisor, which adopts orphans. When preloading has opened a
thread or a connection, forking would copy a lock or share a socket: then each slot is
spawned as a new interpreter, and the template says so.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import sys
import threading
import traceback
from typing import Any

import django
from django.db import connections

from .channel import Channel
from .guardian import guard

Order = dict[str, Any]


def main(fd: int) -> None:
    """Serve orders from the supervisor until it is gone."""
    orders = socket.socket(fileno=fd)
    django.setup()
    hindrance = why_not_fork()
    orders.send(json.dumps({"preloaded": hindrance is None, "why": hindrance}).encode())
    gc.collect()
    gc.freeze()
    while True:
        message, fds, _flags, _address = socket.recv_fds(orders, 65536, 4)
        if not message:
            return
        for fd in fds:
            os.set_inheritable(fd, False)
        _fork_guardian(orders, json.loads(message), fds, spawn=hindrance is not None)


def why_not_fork() -> str | None:
    """Return what preloading has opened that must not be forked."""
    if threading.active_count() > 1:
        names = ", ".join(t.name for t in threading.enumerate()[1:])
        return f"loading the apps started threads: {names}"
    if opened := [c.alias for c in connections.all(True) if c.connection is not None]:
        return f"loading the apps opened connections: {', '.join(opened)}"
    return None


def _fork_guardian(
    orders: socket.socket, order: Order, fds: list[int], *, spawn: bool
) -> None:
    between = os.fork()
    if between == 0:
        if os.fork():
            os._exit(0)
        try:
            orders.close()
            watch, *slot_fds = fds
            guard(Channel.of_fd(watch), lambda: _slot(order, slot_fds, spawn), slot_fds)
        finally:
            os._exit(70)
    os.waitpid(between, 0)
    for fd in fds:
        os.close(fd)


def _slot(order: Order, fds: list[int], spawn: bool) -> None:
    """Be the slot: in this image, or in a new interpreter."""
    control, out, err = fds
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(out)
    os.close(err)
    if spawn:
        os.set_inheritable(control, True)
        argument = json.dumps({"order": order, "control": control})
        module = "buildqueue.worker.template"
        os.execv(sys.executable, [sys.executable, "-m", module, "slot", argument])
    try:
        begin(order, control)
    except BaseException:  # whatever it was ends this process: say it, then go
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(70)


def begin(order: Order, control: int) -> None:
    """Run the slot or the duties, whichever was ordered. Never returns."""
    os.set_inheritable(control, False)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    channel = Channel.of_fd(control)
    if order["role"] == "duties":
        from .duties import serve
    else:
        from .slot import serve
    serve(order, channel)


if __name__ == "__main__":
    if sys.argv[1] == "slot":
        django.setup()
        spawned = json.loads(sys.argv[2])
        begin(spawned["order"], spawned["control"])
    else:
        main(int(sys.argv[1]))
