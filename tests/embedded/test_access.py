"""Who gets into the server? Root and the owner; nobody else, even at the socket."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import psutil
import psycopg
import pytest

from project.embedded_postgres import configuration, ensure
from project.embedded_postgres.account import (
    FALLBACK_NAMES,
    Account,
    caller,
    for_cluster,
    of_uid,
)
from tests.embedded.servers import ask, outcome, python, server_pid

IS_ROOT = os.geteuid() == 0

CONNECT_AS = """
import os, sys
import psycopg
uid = int(sys.argv[1])
if uid != os.geteuid():
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
try:
    psycopg.connect(sys.argv[2]).close()
    print("let in")
except psycopg.OperationalError as error:
    print(error)
"""


def test_no_port_is_open(pg: Path) -> None:
    url = ensure(pg, durable=False)
    assert ask(url, "SHOW listen_addresses") == ""
    server = psutil.Process(server_pid(pg))
    assert not [each for each in server.net_connections("inet") if each.laddr]


def test_the_socket_lies_in_a_folder_closed_to_others(pg: Path) -> None:
    ensure(pg, durable=False)
    folder = (pg / "cluster").stat()
    socket = (pg / "cluster" / ".s.PGSQL.5432").stat()
    assert stat.S_IMODE(folder.st_mode) == stat.S_IMODE(socket.st_mode) == 0o700


def test_the_caller_gets_in_from_another_process(pg: Path) -> None:
    url = ensure(pg, durable=False)
    assert outcome(python(CONNECT_AS, str(os.geteuid()), url)) == "let in"


def test_another_user_cannot_reach_the_socket(pg: Path) -> None:
    url = ensure(pg, durable=False)
    told = _try_as_stranger(pg, url)
    assert "Permission denied" in told


def test_another_user_who_reaches_the_socket_is_refused(pg: Path) -> None:
    url = ensure(pg, durable=False)
    (pg / "cluster").chmod(0o711)
    (pg / "cluster" / ".s.PGSQL.5432").chmod(0o777)
    told = _try_as_stranger(pg, url)
    assert "Peer authentication failed" in told


def test_no_other_role_can_be_taken(pg: Path) -> None:
    url = ensure(pg, durable=False)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE other SUPERUSER LOGIN")
    with pytest.raises(psycopg.OperationalError, match="Peer authentication failed"):
        psycopg.connect(url, user="other")


def test_the_rules_let_in_by_peer_alone(pg: Path) -> None:
    url = ensure(pg, durable=False)
    with psycopg.connect(url) as connection:
        rules = connection.execute(
            "SELECT type, database, user_name, auth_method, options, error"
            " FROM pg_hba_file_rules"
        ).fetchall()
    assert rules == [("local", ["all"], ["all"], "peer", ["map=buildqueue"], None)]


def test_root_and_the_owner_are_the_only_names_let_in(pg: Path) -> None:
    ensure(pg, durable=False)
    owner = for_cluster(pg / "cluster")
    names = _names_in((pg / "cluster" / "pg_ident.conf").read_text())
    assert names == {of_uid(0).name, owner.name} - {"nobody"}


def test_a_shared_account_such_as_nobody_is_not_let_in() -> None:
    nobody = Account(name="nobody", uid=65534, gid=65534)
    assert _names_in(configuration.ident(nobody)) == {of_uid(0).name}


def test_a_changed_rule_is_put_right_at_the_next_start(pg: Path) -> None:
    ensure(pg, durable=False)
    psutil.Process(server_pid(pg)).kill()
    (pg / "cluster" / "pg_hba.conf").write_text("local all all trust\n")
    url = ensure(pg, durable=False)
    assert ask(url, "SELECT string_agg(auth_method, '') FROM pg_hba_file_rules") == (
        "peer"
    )


def test_the_server_does_not_run_as_root(pg: Path) -> None:
    ensure(pg, durable=False)
    server = psutil.Process(server_pid(pg))
    assert 0 not in (*server.uids(), *server.gids())
    assert server.username() == (caller().name if not IS_ROOT else server.username())
    assert not IS_ROOT or server.username() in FALLBACK_NAMES


def _names_in(ident: str) -> set[str]:
    lines = [line for line in ident.splitlines() if not line.startswith("#")]
    return {line.split('"')[1] for line in lines}


def _try_as_stranger(pg: Path, url: str) -> str:
    """Connect as a user with no right to; without root, as the owner of a wrong name.

    Without root nobody can become somebody else. The server is then told another name
    for the caller, and the folder's bits stand in for the stranger's lack of rights.
    """
    if IS_ROOT:
        taken = for_cluster(pg / "cluster").uid
        stranger = next(uid for uid in (65534, 1) if uid != taken)
        return outcome(python(CONNECT_AS, str(stranger), url))
    cluster = pg / "cluster"
    if stat.S_IMODE(cluster.stat().st_mode) == 0o700:
        cluster.chmod(0)
        try:
            return outcome(python(CONNECT_AS, str(os.geteuid()), url))
        finally:
            cluster.chmod(0o700)
    ident = cluster / "pg_ident.conf"
    ident.write_text(ident.read_text().replace(f'"{caller().name}"', '"stranger"'))
    psutil.Process(server_pid(pg)).send_signal(1)
    return outcome(python(CONNECT_AS, str(os.geteuid()), url))
