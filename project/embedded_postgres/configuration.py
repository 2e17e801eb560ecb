"""Who may log in, and how is the server set up? Written anew at each start.

Only a process whose kernel-attested user is root or the cluster's owner gets in, over
the socket, as the one role there is. There is no password to leak and no open port.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import tempfile
from pathlib import Path

from project.embedded_postgres.account import ROOT, Account
from project.embedded_postgres.places import PORT, socket_folder

ROLE = "buildqueue"
SETTINGS_FILE = "embedded.conf"
INCLUDE = f"\ninclude_if_exists = '{SETTINGS_FILE}'\n"
MAX_CONNECTIONS = 100

# A host line would be needed to let anybody in over TCP: there is none.
HBA = "# Written at each start.\nlocal  all  all  peer  map=buildqueue\n"


def write(cluster: Path, account: Account, *, durable: bool) -> None:
    """Write the files of access and settings, each at once or not at all."""
    write_file(cluster / "pg_hba.conf", HBA, account)
    write_file(cluster / "pg_ident.conf", ident(account), account)
    settings = _settings(cluster, durable=durable)
    lines = [f"{name} = {_quoted(value)}\n" for name, value in settings.items()]
    write_file(cluster / SETTINGS_FILE, "".join(lines), account)


def include_own_settings(cluster: Path, account: Account) -> None:
    """Have PostgreSQL read the settings file, after those initdb wrote."""
    path = cluster / "postgresql.conf"
    write_file(path, path.read_text(encoding="utf-8") + INCLUDE, account)


def ident(account: Account) -> str:
    names = {account.name}
    with contextlib.suppress(KeyError):
        names.add(pwd.getpwuid(ROOT).pw_name)
    # Programs of all sorts are run as nobody, deployed agents among them; root, who
    # dropped to that account, does not need it to log in.
    names.discard("nobody")
    lines = [f'buildqueue  "{name}"  {ROLE}\n' for name in sorted(names)]
    return "# Written at each start.\n" + "".join(lines)


def _settings(cluster: Path, *, durable: bool) -> dict[str, str]:
    # A list of folders, each in double quotes, inside a quoted setting.
    folder = str(socket_folder(cluster)).replace('"', '""')
    settings = {
        "listen_addresses": "",
        "port": str(PORT),
        "unix_socket_directories": f'"{folder}"',
        "unix_socket_permissions": "0700",
        "max_connections": str(MAX_CONNECTIONS),
        "cluster_name": ROLE,
        "logging_collector": "off",
        "timezone": "UTC",
        "log_timezone": "UTC",
    }
    if not durable:
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            settings[name] = "off"
    return settings


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def write_file(path: Path, text: str, account: Account) -> None:
    """Replace a file in the account's folder without following a link left in it."""
    descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    fresh = Path(name)
    try:
        with open(descriptor, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
            file.flush()
            os.fsync(file.fileno())
        account.own(fresh)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
