"""How is the server set up, and can anything of the caller's leak into it?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from project.embedded_postgres import cluster as clusters
from project.embedded_postgres import ensure, stop
from project.embedded_postgres.account import for_cluster
from tests.embedded.servers import ask


@pytest.fixture
def strange_caller(ground: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A caller set up for another server, with an odd locale, zone, mask and folder."""
    strange = {
        "PGDATA": "/nonexistent",
        "PGHOST": "db.invalid",
        "PGPORT": "1",
        "PGUSER": "other",
        "PGDATABASE": "other",
        "PGOPTIONS": "-c nonsense=1",
        "PGSERVICE": "none",
        "PSQLRC": str(ground / "psqlrc"),
        "LANG": "xx_XX",
        "LC_ALL": "tr_TR.ISO-8859-9",
        "TZ": "Mars/Olympus",
        "PATH": "/nonexistent",
        "TMPDIR": "/nonexistent",
        "LD_PRELOAD": "",
    }
    for name, value in strange.items():
        monkeypatch.setenv(name, value)
    gone = ground / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    before = os.umask(0o077)
    yield
    os.umask(before)
    monkeypatch.undo()
    os.chdir("/")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("max_connections", "100"),
        ("TimeZone", "UTC"),
        ("log_timezone", "UTC"),
        ("server_encoding", "UTF8"),
        ("logging_collector", "off"),
    ],
)
def test_the_server_is_set_up_for_a_laptop(pg: Path, setting: str, value: str) -> None:
    assert ask(ensure(pg, durable=False), f"SHOW {setting}") == value


def test_text_sorts_and_folds_by_unicode_whatever_the_machine_has(pg: Path) -> None:
    url = ensure(pg, durable=False)
    assert ask(url, "SELECT upper('é')") == "É"
    if ask(url, "SELECT current_setting('server_version_num')::int >= 170000"):
        assert (
            ask(
                url,
                "SELECT datlocprovider::text || datlocale FROM pg_database"
                " WHERE datname = current_database()",
            )
            == "bC.UTF-8"
        )


@pytest.mark.parametrize("durable", [True, False])
def test_durability_is_given_up_only_when_asked(pg: Path, durable: bool) -> None:
    url = ensure(pg, durable=durable)
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        assert ask(url, f"SHOW {setting}") == ("on" if durable else "off")


def test_the_next_start_decides_anew_about_durability(pg: Path) -> None:
    ensure(pg, durable=False)
    stop(pg)
    assert ask(ensure(pg), "SHOW fsync") == "on"


@pytest.mark.usefixtures("private_roots", "strange_caller")
def test_nothing_of_a_strange_caller_leaks_in(pg: Path) -> None:
    url = ensure(pg, durable=False)
    for name in ("PGOPTIONS", "PGSERVICE"):  # libpq's own, which no URL can undo
        os.environ.pop(name)
    assert ask(url, "SHOW TimeZone") == "UTC"
    assert ask(url, "SHOW lc_messages") == "C.UTF-8"
    assert ask(url, "SELECT current_user || '@' || current_database()") == (
        "buildqueue@buildqueue"
    )
    assert stop(pg)


def test_eighty_clients_are_served_at_once(pg: Path) -> None:
    url = ensure(pg, durable=False)
    clients = [psycopg.connect(url) for _ in range(80)]
    assert len({client.info.backend_pid for client in clients}) == 80
    for client in clients:
        client.close()


def test_a_long_log_is_put_aside_at_the_next_start(
    pg: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure(pg, durable=False)
    stop(pg)
    log = pg / "cluster" / clusters.LOG
    before = log.read_bytes()
    monkeypatch.setattr(clusters, "LONGEST_LOG", len(before) - 1)
    ensure(pg, durable=False)
    assert (pg / "cluster" / f"{clusters.LOG}.1").read_bytes() == before
    assert before not in log.read_bytes()
    assert log.stat().st_uid == for_cluster(pg / "cluster").uid


def test_a_short_log_is_continued(pg: Path) -> None:
    ensure(pg, durable=False)
    stop(pg)
    log = pg / "cluster" / clusters.LOG
    before = log.read_bytes()
    ensure(pg, durable=False)
    assert log.read_bytes().startswith(before)
