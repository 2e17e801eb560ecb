"""Where do the cluster, its socket and copies of the programs lie?

In the folder asked for, if the server's account can enter it. Otherwise in a private
folder whose name follows from that folder's path, so that it is found again. Nobody
else's folder is ever opened up, chmod'ed or taken over.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from project.embedded_postgres.account import Account
from project.embedded_postgres.deadline import Deadline
from project.embedded_postgres.errors import EmbeddedPostgresError

CLUSTER = "cluster"
PORT = 5432  # only the number in the socket's name: no port is opened
SOCKET_NAME = f".s.PGSQL.{PORT}"
LONGEST_SOCKET_PATH = 103  # bytes; the shortest limit of the supported kernels
PRIVATE_ROOTS = (Path("/var/lib"), Path("/var/tmp"))  # noqa: S108 - owner is checked
# Not TMPDIR: callers with different ones must come to the same socket.
SHORT_ROOT = Path("/tmp")  # noqa: S108 - the owner is checked


@contextlib.contextmanager
def locked(folder: Path, *, deadline: Deadline) -> Iterator[None]:
    """Let one caller at a time make, start or stop the server of a folder.

    The kernel drops the lock with the process that holds it, however that one ends.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    lock = os.open(folder / "lock", flags, 0o600)
    try:
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if deadline.passed:
                raise EmbeddedPostgresError(
                    f"Another process has been starting or stopping the server of "
                    f"{folder} all the time. Try again, or end that process."
                )
            deadline.pause()
        yield
        # A child forked meanwhile shares the lock; closing alone would not drop it.
        fcntl.flock(lock, fcntl.LOCK_UN)
    finally:
        os.close(lock)


def existing_cluster(folder: Path) -> Path | None:
    if (folder / CLUSTER).is_dir():
        return folder / CLUSTER
    for home in _private_homes(folder):
        if _is_mine(home) and (home / CLUSTER).is_dir():
            return home / CLUSTER
    return None


def new_cluster(folder: Path, account: Account) -> Path:
    """Choose the place of a cluster that does not exist yet."""
    home = folder if account.can_reach(folder) else private_home(folder, account)
    return home / CLUSTER


def require_reachable(cluster: Path, account: Account) -> None:
    """Refuse to begin anew elsewhere while rows lie where the server cannot go."""
    if not account.can_reach(cluster):
        raise EmbeddedPostgresError(
            f"The database in {cluster} belongs to the user {account.name}, who can no "
            "longer enter the folders above it. Let that user pass through them "
            "(chmod o+x), or stop here and move the folder back to where it was made."
        )


def private_home(folder: Path, account: Account) -> Path:
    """Make, or find again, a folder of the caller's that `account` can pass through.

    It stays the caller's: the server's account must not be able to replace programs
    that lie in it.
    """
    for home in _private_homes(folder):
        try:
            home.mkdir(mode=0o711, exist_ok=True)
        except OSError:
            continue
        if _is_mine(home):
            home.chmod(0o711)
            if account.can_reach(home):
                return home
    tried = " or ".join(str(root) for root in PRIVATE_ROOTS)
    raise EmbeddedPostgresError(
        f"The user {account.name}, who has to run PostgreSQL, cannot enter {folder}, "
        f"and no folder could be made in {tried} instead. Choose a folder that user "
        "can enter, run as an ordinary user, or set DATABASE_URL."
    )


def socket_folder(cluster: Path) -> Path:
    fits = len(os.fsencode(cluster / SOCKET_NAME)) <= LONGEST_SOCKET_PATH
    if fits and "," not in str(cluster):  # at which clients would split the path
        return cluster
    return SHORT_ROOT / f"buildqueue-{_digest(cluster)}"


def make_socket_folder(cluster: Path, account: Account) -> None:
    """Make the socket's folder, and trust one that is there only if nobody else can."""
    folder = socket_folder(cluster)
    if folder == cluster:
        return
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    seen = folder.lstat()
    ours = seen.st_uid in (account.uid, os.geteuid())
    if not stat.S_ISDIR(seen.st_mode) or not ours or seen.st_mode & 0o077:
        raise EmbeddedPostgresError(
            f"{folder}, the place for the socket, was made by somebody else or is open "
            "to others. Find out who made it, remove it and start again."
        )
    account.own(folder)


def _private_homes(folder: Path) -> list[Path]:
    name = f"buildqueue-{os.geteuid()}-{_digest(folder)}"
    return [root / name for root in PRIVATE_ROOTS]


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


def _is_mine(home: Path) -> bool:
    try:
        seen = home.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid()
