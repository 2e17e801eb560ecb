"""How is it seen that the demo runs in this folder already? By a lock that ends with it.

Two would share the database and the agents, and the first to stop would take them along.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class RunsAlready(Exception):
    """Another demo has the folder; its message tells the process."""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder; RunsAlready when another process does; a killed one does not."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "demo.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            pid = lock.read().strip() or "unknown"
            raise RunsAlready(
                f"it runs here already, as process {pid}: use that one, or stop it first "
                f"(Ctrl-C in its terminal, or kill {pid})"
            ) from None
        lock.seek(0)
        lock.truncate()
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield
