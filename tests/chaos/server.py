"""Which database does the chaos test run on? A durable PostgreSQL of its own.

Nobody else's is ever stopped. It notes when each transaction committed, so that the
checks can tell what came first, whatever the writers thought.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
import psycopg.conninfo

from project import embedded_postgres
from tests.support.waiting import wait_until

DATABASE = "chaos"


@dataclass(frozen=True, slots=True)
class Server:
    """One server in one folder; its data is gone with the folder."""

    folder: Path

    def start(self) -> None:
        """Start it, or find it running; it is usable when this returns."""
        embedded_postgres.ensure(self.folder, database=DATABASE, durable=True)

    def prepare(self) -> None:
        """Start it for the first time."""
        self.start()
        with psycopg.connect(self.url, autocommit=True) as session:
            session.execute("ALTER SYSTEM SET track_commit_timestamp = on")
            session.execute("ALTER SYSTEM SET log_lock_waits = on")
        self.stop_fast()
        self.start()

    @property
    def url(self) -> str:
        """Return its URL, by the private socket."""
        return embedded_postgres.url(self.folder, database=DATABASE)

    @property
    def settings(self) -> dict[str, Any]:
        """Return the same as Django's settings want it."""
        found = psycopg.conninfo.conninfo_to_dict(self.url)
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": found["dbname"],
            "USER": found["user"],
            "PASSWORD": "",
            "HOST": found["host"],
            "PORT": found["port"],
        }

    @property
    def socket(self) -> Path:
        """Return the path of its socket."""
        found = self.settings
        return Path(found["HOST"]) / f".s.PGSQL.{found['PORT']}"

    def stop_fast(self) -> None:
        """Stop it in good order: open transactions are rolled back."""
        embedded_postgres.stop(self.folder)

    def stop_immediately(self) -> None:
        """Have it drop everything; the next start recovers from the log of writes."""
        pid = embedded_postgres.status(self.folder).pid
        if pid is not None:
            process = psutil.Process(pid)
            os.kill(pid, signal.SIGQUIT)
            wait_until(lambda: not process.is_running(), message="it does not stop")

    def log(self) -> list[str]:
        """Return the lines of its log."""
        cluster = embedded_postgres.status(self.folder).cluster
        path = None if cluster is None else cluster / "server.log"
        if path is None or not path.exists():
            return []
        return path.read_text(errors="replace").splitlines()


def deadlocks(log: list[str]) -> list[list[str]]:
    """Return what a server's log tells of each deadlock: who waited for whom, and where."""
    found = []
    for number, line in enumerate(log):
        if "deadlock detected" in line:
            rest = log[number + 1 : number + 40]
            ends = (n for n, each in enumerate(rest) if "STATEMENT:" in each)
            found.append([line, *rest[: next(ends, len(rest)) + 1]])
    return found
