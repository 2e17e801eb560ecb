"""Which living processes belong to a cluster? Asked after any kind of crash.

A number in a lock file proves nothing: numbers are used again, in containers most of
all. A process belongs to a cluster if it is a postgres that works in its folder.
"""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from project.embedded_postgres.account import Account
from project.embedded_postgres.configuration import write_file

PID_FILE = "postmaster.pid"


def postmaster(cluster: Path) -> psutil.Process | None:
    """Return the server's process; a stranger that got its number is none."""
    try:
        pid = int((cluster / PID_FILE).read_bytes().partition(b"\n")[0])
        server = psutil.Process(pid)
    except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
        return None
    return server if serves(server, cluster) else None


def serves(process: psutil.Process, cluster: Path) -> bool:
    try:
        if process.name() != "postgres":
            return False
        return os.path.samefile(process.cwd(), cluster)
    except (psutil.Error, OSError):  # it ended, or belongs to somebody else
        return False


def survivors(cluster: Path) -> list[int]:
    """Return what is left of a server that died; meant for when there is no server."""
    if not (cluster / PID_FILE).exists():
        return []
    return [each.pid for each in psutil.process_iter() if serves(each, cluster)]


def disown(lock: Path, cluster: Path, account: Account) -> None:
    """Make a dead server's lock file stale when its process number is in use again.

    PostgreSQL refuses to start over a living process of its own user. Deleting the file
    would also throw away the shared memory noted in it, by which PostgreSQL recognizes
    a back end that outlived its server. The number of the process that starts it, the
    caller's, counts as stale; so only the number is changed.
    """
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    with open(descriptor, encoding="utf-8", errors="surrogateescape") as file:
        pid, _, rest = file.read().partition("\n")
    if pid.isdigit() and not _is_used_again(int(pid), cluster):
        return
    write_file(lock, f"{os.getpid()}\n{rest}", account)


def _is_used_again(pid: int, cluster: Path) -> bool:
    try:
        return not serves(psutil.Process(pid), cluster)
    except psutil.NoSuchProcess:
        return False
