"""Does it work wherever project and environment lie, leaving them as they are?"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from project.embedded_postgres import (
    EmbeddedPostgresError,
    binaries,
    ensure,
    places,
    status,
    stop,
    url,
)
from project.embedded_postgres.account import Account, for_new_cluster
from tests.embedded.servers import ask, end, rows, server_pid, write_row

ODD_NAMES = [
    "with space",
    "quo'te\"s",
    "100%41?#@&+;=",
    "$(touch hit)`touch hit`$HOME",
    "back\\slash",
    "a,b",
    "déjà-vu-日本",
    "-dash",
]


@pytest.fixture
def closed(ground: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like a 0700 /root, which the server's account cannot enter."""
    folder = ground / "closed"
    folder.mkdir(mode=0o700)
    if os.geteuid() != 0:  # everybody can enter their own folder: pretend otherwise
        monkeypatch.setattr(Account, "can_reach", _unless_below(folder))
    return folder


@pytest.mark.parametrize("name", ODD_NAMES)
def test_an_odd_folder_name_is_only_a_name(
    ground: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "SHORT_ROOT", ground)
    folder = ground / name
    write_row(ensure(folder, durable=False))
    assert rows(ensure(folder, durable=False)) == 1
    assert stop(folder)
    assert rows(ensure(folder, durable=False)) == 1
    assert stop(folder)
    assert not list(ground.rglob("hit"))


def test_a_closed_project_gets_its_database_in_a_private_folder(
    closed: Path, private_roots: tuple[Path, Path]
) -> None:
    folder = closed / "var" / "pg"
    write_row(ensure(folder, durable=False))
    cluster = status(folder).cluster
    assert cluster is not None
    assert cluster.is_relative_to(private_roots[0])
    assert stop(folder)
    assert rows(ensure(folder, durable=False)) == 1
    assert url(folder) == ensure(folder, durable=False)
    assert stop(folder)


def test_the_second_private_root_serves_where_the_first_cannot(
    closed: Path, private_roots: tuple[Path, Path]
) -> None:
    private_roots[0].rmdir()
    ensure(closed / "pg", durable=False)
    cluster = status(closed / "pg").cluster
    assert cluster is not None
    assert cluster.is_relative_to(private_roots[1])


def test_without_any_private_folder_the_error_says_what_to_do(
    closed: Path, private_roots: tuple[Path, Path]
) -> None:
    for root in private_roots:
        root.rmdir()
    with pytest.raises(EmbeddedPostgresError, match="set DATABASE_URL"):
        ensure(closed / "pg", durable=False)


def test_two_closed_projects_have_two_databases(
    closed: Path, private_roots: tuple[Path, Path]
) -> None:
    write_row(ensure(closed / "one", durable=False))
    assert ask(ensure(closed / "two", durable=False), "SELECT to_regclass('kept')") in (
        None,
        "",
    )


def test_nobody_elses_folder_is_opened_up(
    closed: Path, private_roots: tuple[Path, Path]
) -> None:
    (closed / "pg").mkdir(mode=0o750)
    before = [_mode(closed), _mode(closed / "pg"), _mode(private_roots[0])]
    ensure(closed / "pg", durable=False)
    after = [_mode(closed), _mode(closed / "pg"), _mode(private_roots[0])]
    assert after == before


def test_a_private_folder_stays_the_callers(
    closed: Path, private_roots: tuple[Path, Path]
) -> None:
    ensure(closed / "pg", durable=False)
    home = next(private_roots[0].iterdir())
    assert home.stat().st_uid == os.geteuid()
    assert _mode(home) == 0o711
    assert _mode(home / "cluster") == 0o700


def test_a_closed_project_whose_rows_lie_inside_is_not_begun_anew(
    ground: Path, private_roots: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ground / "project"
    write_row(ensure(folder / "pg", durable=False))
    stop(folder / "pg")
    folder.chmod(0o700)
    if os.geteuid() != 0:
        monkeypatch.setattr(Account, "can_reach", _unless_below(folder))
    with pytest.raises(EmbeddedPostgresError, match="can no longer enter"):
        ensure(folder / "pg", durable=False)


def test_programs_the_account_cannot_run_are_copied(
    pg: Path, unrunnable_wheel: Path, private_roots: tuple[Path, Path]
) -> None:
    before = _mode(unrunnable_wheel)
    assert ask(ensure(pg, durable=False), "SELECT 1") == 1
    assert _mode(unrunnable_wheel) == before
    copy = next(private_roots[0].glob("*/postgres-1.0"))
    programs = list(copy.rglob("*"))
    assert not [path for path in programs if path.stat().st_uid != os.geteuid()]
    assert not [path for path in programs if path.stat().st_mode & 0o022]


def test_a_copy_is_made_once(
    pg: Path, unrunnable_wheel: Path, private_roots: tuple[Path, Path]
) -> None:
    ensure(pg, durable=False)
    copy = next(private_roots[0].glob("*/postgres-1.0"))
    made = copy.stat().st_ino
    stop(pg)
    ensure(pg, durable=False)
    assert copy.stat().st_ino == made


def test_a_copy_is_replaced_when_the_version_changes(
    pg: Path,
    unrunnable_wheel: Path,
    private_roots: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_row(ensure(pg))
    home = next(private_roots[0].iterdir())
    (home / "postgres-half-abc").mkdir()
    old = binaries.locate()
    new = binaries.Binaries(folder=old.folder, package=old.package, version="1.1")
    monkeypatch.setattr(binaries, "locate", lambda: new)
    assert rows(ensure(pg)) == 1
    assert [each.name for each in home.glob("postgres-*")] != ["postgres-1.1"]
    end(server_pid(pg))
    assert rows(ensure(pg)) == 1
    assert [each.name for each in home.glob("postgres-*")] == ["postgres-1.1"]


def test_a_long_path_gets_a_short_closed_socket_folder(
    ground: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "SHORT_ROOT", ground)
    folder = ground / ("long" * 20) / ("path" * 20)
    write_row(ensure(folder, durable=False))
    socket = next(ground.glob("buildqueue-*"))
    assert _mode(socket) == 0o700
    assert socket.stat().st_uid == for_new_cluster().uid
    assert stop(folder)
    assert rows(ensure(folder, durable=False)) == 1


@pytest.mark.parametrize("trap", ["link", "open", "file"])
def test_a_socket_folder_made_by_somebody_else_is_refused(
    ground: Path, monkeypatch: pytest.MonkeyPatch, trap: str
) -> None:
    monkeypatch.setattr(places, "SHORT_ROOT", ground)
    folder = ground / ("long" * 20) / ("path" * 20)
    place = places.socket_folder(folder / "cluster")
    if trap == "link":
        place.symlink_to(ground)
    elif trap == "open":
        place.mkdir()
        place.chmod(0o777)
    else:
        place.touch()
    with pytest.raises(EmbeddedPostgresError, match="made by somebody else"):
        ensure(folder, durable=False)


def test_a_private_folder_made_by_somebody_else_is_not_used(
    closed: Path, private_roots: tuple[Path, Path]
) -> None:
    ensure(closed / "pg", durable=False)
    stop(closed / "pg")
    home = next(private_roots[0].iterdir())
    home.rename(home.with_name("moved"))
    home.symlink_to(home.with_name("moved"))
    ensure(closed / "pg", durable=False)
    cluster = status(closed / "pg").cluster
    assert cluster is not None
    assert cluster.is_relative_to(private_roots[1])


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _unless_below(folder: Path) -> Callable[[Account, Path], bool]:
    return lambda _, path: not path.is_relative_to(folder)
