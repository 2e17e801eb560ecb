"""How does a test get a real PgBouncer, and where is it needed? In CI, always."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from .servers import HOST, ROLE, Server, account_folder, free_port, run_as
from .waiting import wait_until

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
WHY_NOT = "pgbouncer is not installed (apt-get install pgbouncer)"
MISSING = PROGRAM is None and os.environ.get("CI") != "true"

CONFIG = """\
[databases]
* = host={host} port={server_port}

[pgbouncer]
listen_addr = {host}
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = 10
max_client_conn = 200
server_lifetime = 3600
"""


@contextmanager
def pooler(server: Server) -> Iterator[dict[str, Any]]:
    """Run one in transaction mode before a server; yield DATABASES' entry for it."""
    assert PROGRAM is not None, WHY_NOT
    with account_folder() as (account, folder):
        port = free_port()
        facts = {"host": HOST, "server_port": server.port, "folder": folder}
        texts = {
            "pgbouncer.ini": CONFIG.format(port=port, **facts),
            "users.txt": f'"{ROLE}" "{server.password}"\n',
        }
        for name, text in texts.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o600)
            account.own(folder / name)
        log = folder / "pgbouncer.log"
        process = run_as(account, [PROGRAM, folder / "pgbouncer.ini"], log)
        settings = server.settings | {
            "PORT": port,
            "DISABLE_SERVER_SIDE_CURSORS": True,
        }
        try:
            wait_until(lambda: _answers(settings), message=log.read_text)
            yield settings
        finally:
            process.kill()
            process.wait()


def _answers(settings: dict[str, Any]) -> bool:
    try:
        with psycopg.connect(
            host=settings["HOST"],
            port=settings["PORT"],
            user=settings["USER"],
            password=settings["PASSWORD"],
            dbname=settings["NAME"],
            prepare_threshold=None,
        ) as connection:
            return bool(connection.execute("SELECT 1").fetchone())
    except psycopg.OperationalError:
        return False
