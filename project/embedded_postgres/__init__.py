"""How does the demo get a real PostgreSQL on a machine that has none set up?

`ensure` starts or finds the server of a folder and returns its DATABASE_URL. The server
outlives its starter, listens on a private socket only, and lets in nobody but root and
the cluster's owner. It must not import Django: settings call it.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from project.embedded_postgres import account as accounts
from project.embedded_postgres import binaries as programs
from project.embedded_postgres import cluster as clusters
from project.embedded_postgres import places, processes
from project.embedded_postgres.account import Account
from project.embedded_postgres.binaries import Binaries
from project.embedded_postgres.configuration import ROLE
from project.embedded_postgres.deadline import Deadline
from project.embedded_postgres.errors import EmbeddedPostgresError

__all__ = [
    "DATA_DIR",
    "EmbeddedPostgresError",
    "Status",
    "ensure",
    "status",
    "stop",
    "url",
]

DATA_DIR = Path(__file__).resolve().parents[2] / "var" / "postgres"  # the demo's own
DATABASE = "buildqueue"
DATABASE_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    cluster: Path | None  # where it lies, if it has been made
    pid: int | None  # the server's process, if it runs


def ensure(
    data_dir: Path,
    *,
    database: str = DATABASE,
    timeout: float = 60,
    durable: bool = True,
) -> str:
    """Start or find the server of a folder and return the URL of a database on it.

    Any number of processes may call it at once: one server starts. Without `durable` a
    killed server forgets the last commits and a crash of the machine may destroy all,
    which is right for tests alone; a server that runs keeps the choice it was started
    with. If the caller dies, the server lives on or the next call starts it.
    """
    if not DATABASE_NAME.fullmatch(database):
        raise EmbeddedPostgresError(
            f"{database!r} cannot be the database's name. Use small letters, digits "
            "and underscores, at most 63 of them, not starting with a digit."
        )
    folder = data_dir.resolve()
    deadline = Deadline.after(timeout)
    with _told_plainly(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with places.locked(folder, deadline=deadline):
            found = programs.locate()
            cluster = _bring_up(folder, found, durable=durable, deadline=deadline)
            clusters.make_database(cluster, found, name=database, deadline=deadline)
    return _url(cluster, database)


def stop(data_dir: Path, *, timeout: float = 60) -> bool:
    """Stop the server of a folder; return when it is down, and whether it was up."""
    folder = data_dir.resolve()
    deadline = Deadline.after(timeout)
    with _told_plainly(folder):
        if not folder.is_dir():
            return False
        with places.locked(folder, deadline=deadline):
            cluster = places.existing_cluster(folder)
            if cluster is None:
                return False
            accounts.for_cluster(cluster)  # refuses what belongs to somebody else
            return clusters.stop(cluster, deadline=deadline)


def url(data_dir: Path, *, database: str = DATABASE) -> str:
    """Return the URL `ensure` gave, whether the server is up or not."""
    folder = data_dir.resolve()
    with _told_plainly(folder):
        cluster = places.existing_cluster(folder)
    if cluster is None:
        raise EmbeddedPostgresError(f"There is no database in {folder} yet: start it.")
    return _url(cluster, database)


def status(data_dir: Path) -> Status:
    """Say where the cluster of a folder lies and which process serves it."""
    folder = data_dir.resolve()
    with _told_plainly(folder):
        cluster = places.existing_cluster(folder)
        if cluster is None:
            return Status(cluster=None, pid=None)
        accounts.for_cluster(cluster)
        server = processes.postmaster(cluster)
        return Status(cluster=cluster, pid=server.pid if server else None)


def _url(cluster: Path, database: str) -> str:
    # With the port, so that the caller's PGPORT does not lead elsewhere.
    host = quote(os.fsencode(places.socket_folder(cluster)), safe="")
    return f"postgresql://{ROLE}@/{database}?host={host}&port={places.PORT}"


def _bring_up(
    folder: Path, found: Binaries, *, durable: bool, deadline: Deadline
) -> Path:
    cluster = places.existing_cluster(folder)
    if cluster is None:
        account = accounts.for_new_cluster()
        cluster = places.new_cluster(folder, account)
        usable = _usable(found, folder, account)
        clusters.create(cluster, account, usable, durable=durable, deadline=deadline)
    account = accounts.for_cluster(cluster)
    places.make_socket_folder(cluster, account)
    while (seen := clusters.answer(cluster, found)) is not clusters.Answer.READY:
        if deadline.passed:
            raise EmbeddedPostgresError(
                f"The server of {cluster} did not let anybody in in time. It may be "
                f"recovering from a crash: look into {cluster / clusters.LOG}, wait "
                "longer, or stop it and start again."
            )
        if seen is clusters.Answer.SILENT and processes.postmaster(cluster) is None:
            places.require_reachable(cluster, account)
            usable = _usable(found, folder, account)
            clusters.require_version(cluster, account, usable)
            clusters.start(cluster, account, usable, durable=durable, deadline=deadline)
        else:
            deadline.pause()
    return cluster


def _usable(found: Binaries, folder: Path, account: Account) -> Binaries:
    if found.runs_in_place(account):
        return found
    return programs.copy_into(places.private_home(folder, account), found)


@contextlib.contextmanager
def _told_plainly(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EmbeddedPostgresError(
            f"PostgreSQL cannot be kept in {folder}: {error}. Mend that, choose "
            "another folder, or set DATABASE_URL to a server of your own."
        ) from error
