"""Does one server run for a folder, whatever is killed, and are its rows kept?"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from project.embedded_postgres import (
    EmbeddedPostgresError,
    ensure,
    processes,
    status,
    stop,
)
from project.embedded_postgres import cluster as clusters
from project.embedded_postgres.account import for_cluster
from project.embedded_postgres.places import SOCKET_NAME
from tests.embedded.servers import (
    ask,
    end,
    is_gone,
    outcome,
    python,
    rows,
    server_pid,
    write_row,
)
from tests.support.waiting import wait_until

ENSURE = """
import sys
from pathlib import Path
from project.embedded_postgres import ensure
print(ensure(Path(sys.argv[1]), durable=False), flush=True)
"""
ENSURE_AND_STAY = ENSURE + "sys.stdin.read()\n"


def test_a_first_call_starts_a_server_that_can_be_asked(pg: Path) -> None:
    url = ensure(pg, durable=False)
    assert ask(url, "SELECT current_database()") == "buildqueue"
    assert ask(url, "SELECT current_user") == "buildqueue"


def test_a_second_call_finds_the_same_server(pg: Path) -> None:
    url = ensure(pg, durable=False)
    pid = server_pid(pg)
    assert ensure(pg, durable=False) == url
    assert server_pid(pg) == pid == status(pg).pid


def test_another_name_of_the_folder_finds_the_same_server(
    ground: Path, pg: Path
) -> None:
    url = ensure(pg, durable=False)
    (ground / "link").symlink_to(pg)
    assert ensure(ground / "link", durable=False) == url


def test_each_database_is_made_once(pg: Path) -> None:
    ensure(pg, database="one", durable=False)
    write_row(ensure(pg, database="other", durable=False))
    assert rows(ensure(pg, database="other", durable=False)) == 1


def test_six_starters_at_once_start_one_server(pg: Path) -> None:
    starters = [python(ENSURE, pg) for _ in range(6)]
    urls = {outcome(starter) for starter in starters}
    assert len(urls) == 1
    of_cluster = set(processes.survivors(pg / "cluster"))
    parents = {pid: psutil.Process(pid).ppid() for pid in of_cluster}
    servers = [pid for pid, parent in parents.items() if parent not in of_cluster]
    assert servers == [server_pid(pg)]


def test_rows_are_kept_over_a_stop(pg: Path) -> None:
    write_row(ensure(pg, durable=False))
    assert stop(pg)
    assert rows(ensure(pg, durable=False)) == 1


def test_stop_returns_when_the_server_is_down(pg: Path) -> None:
    url = ensure(pg, durable=False)
    pid = server_pid(pg)
    with psycopg.connect(url):
        assert stop(pg)
    assert is_gone(pid)
    assert not (pg / "cluster" / "postmaster.pid").exists()
    with pytest.raises(psycopg.OperationalError):
        ask(url, "SELECT 1")


def test_stop_of_a_stopped_server_does_nothing(pg: Path) -> None:
    ensure(pg, durable=False)
    assert stop(pg)
    assert not stop(pg)


def test_stop_where_nothing_was_ever_started_makes_nothing(pg: Path) -> None:
    assert not stop(pg)
    assert not pg.exists()


def test_stop_does_not_hit_a_stranger_that_got_the_process_number(pg: Path) -> None:
    ensure(pg, durable=False)
    end(server_pid(pg))
    with _stranger(pg) as stranger:
        assert not stop(pg)
        assert stranger.poll() is None


def test_the_server_outlives_its_killed_starter(pg: Path) -> None:
    starter = python(ENSURE_AND_STAY, pg)
    assert starter.stdout is not None
    url = starter.stdout.readline().strip()
    starter.kill()
    starter.communicate()
    pid = server_pid(pg)
    assert ask(url, "SELECT 1") == 1
    assert ensure(pg, durable=False) == url
    assert server_pid(pg) == pid


def test_a_killed_server_is_started_again_with_its_rows(pg: Path) -> None:
    write_row(ensure(pg))
    pid = server_pid(pg)
    end(pid)
    assert rows(ensure(pg)) == 1
    assert server_pid(pg) != pid


def test_a_server_starts_although_its_old_number_is_in_use_again(pg: Path) -> None:
    write_row(ensure(pg))
    end(server_pid(pg))
    wait_until(lambda: not processes.survivors(pg / "cluster"))
    with _stranger(pg) as stranger:
        url = ensure(pg)
        assert rows(url) == 1
        assert server_pid(pg) != stranger.pid
        assert stranger.poll() is None


def test_an_empty_lock_file_does_not_keep_the_server_down(pg: Path) -> None:
    ensure(pg, durable=False)
    stop(pg)
    lock = pg / "cluster" / "postmaster.pid"
    lock.touch(mode=0o600)
    for_cluster(pg / "cluster").own(lock)
    assert ask(ensure(pg, durable=False), "SELECT 1") == 1


@pytest.mark.parametrize("seen", [True, False], ids=["by-us", "by-postgres"])
def test_no_server_starts_beside_a_back_end_of_a_dead_one(
    pg: Path, monkeypatch: pytest.MonkeyPatch, seen: bool
) -> None:
    url = ensure(pg)
    write_row(url)
    monkeypatch.setattr(clusters, "SURVIVORS_GET", 0.0 if seen else 60.0)
    with psycopg.connect(url, autocommit=True) as connection:
        frozen = psutil.Process(connection.info.backend_pid)
        frozen.suspend()
        end(server_pid(pg))
        if not seen:  # then PostgreSQL itself has to see the shared memory in use
            monkeypatch.setattr(processes, "survivors", lambda _: [])
        with _stranger(pg):
            expected = str(frozen.pid) if seen else "shared memory"
            with pytest.raises(EmbeddedPostgresError, match=expected):
                ensure(pg)
        frozen.kill()
        wait_until(lambda: is_gone(frozen.pid))
    monkeypatch.undo()
    assert rows(ensure(pg)) == 1


def test_a_starter_killed_while_making_the_cluster_leaves_no_half_one(pg: Path) -> None:
    starter = python(ENSURE, pg)
    wait_until(lambda: list(pg.glob("cluster.new-*/PG_VERSION")))
    starter.kill()
    starter.communicate()
    assert ask(ensure(pg, durable=False), "SELECT 1") == 1


def test_a_frozen_server_is_reported_in_time(pg: Path) -> None:
    ensure(pg, durable=False)
    server = psutil.Process(server_pid(pg))
    server.suspend()
    try:
        with pytest.raises(EmbeddedPostgresError, match="did not let anybody in"):
            ensure(pg, durable=False, timeout=1)
    finally:
        server.resume()
    assert ask(ensure(pg, durable=False), "SELECT 1") == 1


@contextlib.contextmanager
def _stranger(pg: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A living process of the server's user whose number the dead server had."""
    account = for_cluster(pg / "cluster")
    stranger = subprocess.Popen(
        ["sleep", "600"],
        user=None if account.is_caller else account.uid,
        group=None if account.is_caller else account.gid,
    )
    try:
        for name in ("postmaster.pid", f"{SOCKET_NAME}.lock"):
            lock = pg / "cluster" / name
            _, _, rest = lock.read_text().partition("\n")
            lock.write_text(f"{stranger.pid}\n{rest}")
        yield stranger
    finally:
        stranger.kill()
        stranger.wait()
