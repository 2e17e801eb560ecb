"""How does a test get a PostgreSQL that it may stop, freeze and fill? One of its own.

It is reached over TCP, with a password, so that poolers, proxies and other roles can get
in, too. It runs under an account of its own when the tests are root's.
"""

from __future__ import annotations

import copy
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
from django.core.management import call_command
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from project.embedded_postgres import binaries
from project.embedded_postgres.account import ENVIRONMENT, Account, for_new_cluster
from project.embedded_postgres.deadline import Deadline

from .waiting import wait_until

ROLE, DATABASE, HOST = "owner", "jobs", "127.0.0.1"
# A killed server keeps its commits; what the machine itself forgets is no matter.
SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "80",
}


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@contextmanager
def account_folder() -> Iterator[tuple[Account, Path]]:
    """Give an account without privileges a short folder; it goes afterwards."""
    account = for_new_cluster()
    folder = Path(tempfile.mkdtemp(prefix="bq-", dir="/var/tmp")).resolve()
    folder.chmod(0o755)
    account.own(folder)
    try:
        yield account, folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_as(account: Account, argv: list[str | Path], log: Path) -> Any:
    """Start a program as the account, in a session of its own."""
    other = {} if account.is_caller else {"user": account.uid, "group": account.gid}
    with log.open("ab") as output:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=ENVIRONMENT,
            cwd=log.parent,
            start_new_session=True,
            extra_groups=None if account.is_caller else [],
            **other,
        )


class Server:
    """One server with one migrated database."""

    def __init__(self, account: Account, folder: Path) -> None:
        self._account, self._folder = account, folder
        self._log = folder / "server.log"
        self.port, self.password = free_port(), secrets.token_hex(12)
        self._process: subprocess.Popen[bytes] | None = None
        found = binaries.locate()
        if not found.runs_in_place(account):
            found = binaries.copy_into(folder, found)
        self._programs = found

    def create(self) -> None:
        """Make the cluster, start it, and make the database."""
        secret = self._folder / "password"
        secret.write_text(self.password)
        self._account.own(secret)
        argv: list[str | Path] = [self._programs.program("initdb"), "-D", "data"]
        argv += ["-U", ROLE, "--auth=scram-sha-256", f"--pwfile={secret}"]
        argv += ["--no-sync", "-E", "UTF8", "--locale=C.UTF-8"]
        made = self._account.run(argv, cwd=self._folder, deadline=Deadline.after(120))
        assert made.returncode == 0, made.stderr
        self.start()
        self.ask(f"CREATE DATABASE {DATABASE}", database="postgres")

    @property
    def settings(self) -> dict[str, Any]:
        """Return what DATABASES must say to reach it."""
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": DATABASE,
            "USER": ROLE,
            "PASSWORD": self.password,
            "HOST": HOST,
            "PORT": self.port,
            "OPTIONS": {},
        }

    def ask(self, statement: str, *, database: str = DATABASE) -> Any:
        """Execute a statement on a connection of its own; return the first value."""
        with psycopg.connect(
            host=HOST,
            port=self.port,
            user=ROLE,
            password=self.password,
            dbname=database,
            autocommit=True,
        ) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchone()[0] if cursor.description else None

    # -- life ---------------------------------------------------------------------

    def start(self) -> None:
        """Start it and wait until it lets somebody in."""
        server = self._programs.program("postgres")
        argv: list[str | Path] = [server, "-D", self._folder / "data"]
        for name, value in (SETTINGS | {"port": str(self.port)}).items():
            argv += ["-c", f"{name}={value}"]
        self._process = run_as(self._account, argv, self._log)
        wait_until(self._answers, timeout=120, message=self._log.read_text)

    def _answers(self) -> bool:
        try:
            return bool(self.ask("SELECT 1", database="postgres"))
        except psycopg.OperationalError:
            return False

    def ensure_running(self) -> None:
        """Start it if a test that failed has left it down."""
        if self._process is None or self._process.poll() is not None:
            self.start()

    def stop(self, *, how: signal.Signals = signal.SIGQUIT) -> None:
        """End it: QUIT as a crash would, INT as an operator does."""
        if self._process is not None and self._process.poll() is None:
            self.thaw()
            self._process.send_signal(how)
            self._process.wait(60)

    def _processes(self) -> list[psutil.Process]:
        assert self._process is not None
        first = psutil.Process(self._process.pid)
        return [first, *first.children(recursive=True)]

    def freeze(self) -> None:
        """Stop every process of it in its tracks; connections stay open."""
        for process in self._processes():  # the first one first: it makes no more
            process.suspend()
        for process in self._processes():
            process.suspend()

    def thaw(self) -> None:
        """Let them go on."""
        for process in reversed(self._processes()):
            process.resume()


@contextmanager
def own_server() -> Iterator[Server]:
    """Make a server with a migrated database, and end it afterwards."""
    with account_folder() as (account, folder):
        made = Server(account, folder)
        try:
            made.create()
            with instead_of_usual(made.settings):
                call_command("migrate", run_syncdb=True, verbosity=0)
            yield made
        finally:
            made.stop()


@contextmanager
def instead_of_usual(settings: dict[str, Any]) -> Iterator[None]:
    """Have this thread's default connection lead there; workers follow it."""
    usual = connections["default"]
    connections["default"] = connection_to(settings)
    try:
        yield
    finally:
        connections["default"].close()
        connections["default"] = usual


def connection_to(settings: dict[str, Any]) -> BaseDatabaseWrapper:
    """Return a connection that is the default one in all but its address."""
    usual = connections["default"]
    wrapper = type(usual)(copy.deepcopy(usual.settings_dict | settings), "default")
    assert isinstance(wrapper, BaseDatabaseWrapper)
    return wrapper
