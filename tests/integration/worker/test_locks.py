"""Are the worker's own sessions its own, and does a dead network end them?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError, connection, connections

from buildqueue.queue import database
from buildqueue.worker import locks, preflight
from tests.support.jobs import enqueue
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("committed")


@contextmanager
def options(**chosen: Any) -> Iterator[None]:
    """Have the default alias carry these OPTIONS, too, meanwhile."""
    settings = connections["default"].settings_dict
    usual = settings["OPTIONS"]
    settings["OPTIONS"] = usual | chosen
    try:
        yield
    finally:
        settings["OPTIONS"] = usual


def test_an_own_session_gives_up_a_server_that_is_cut_off() -> None:
    session = locks.own_connection()
    try:
        found = session.connection.info.get_parameters()
    finally:
        session.close()

    wanted = {name: str(value) for name, value in locks.STEADY.items()}
    assert {name: found.get(name) for name in wanted} == wanted


def test_what_the_host_has_set_goes_before() -> None:
    with options(connect_timeout=3, keepalives_idle=60):
        session = locks.own_connection()
    try:
        found = session.connection.info.get_parameters()
    finally:
        session.close()

    assert (found["connect_timeout"], found["keepalives_idle"]) == ("3", "60")
    assert found["tcp_user_timeout"] == "30000"


def test_the_environments_time_to_connect_goes_before_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "7")
    session = locks.own_connection()
    try:
        assert session.connection.info.get_parameters()["connect_timeout"] == "7"
    finally:
        session.close()


def test_an_own_session_is_none_of_a_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    with options(pool=True):
        session = locks.own_connection()
    try:
        assert session.pool is None
    finally:
        session.close()


def test_no_session_of_ours_prepares_statements() -> None:
    session = locks.own_connection()
    try:
        assert session.connection.prepare_threshold is None
    finally:
        session.close()


def test_a_thread_may_have_a_steady_connection_and_the_others_keep_theirs() -> None:
    usual = database.connection()
    try:
        locks.steady_here()
        assert enqueue("ok").pk
        assert database.connection() is not usual
        assert database.connection().settings_dict["OPTIONS"]["keepalives"] == 1
        assert "keepalives" not in usual.settings_dict["OPTIONS"]
    finally:
        database.connection().close()
        connections["default"] = usual


def test_a_cut_connection_is_made_anew_before_it_is_used() -> None:
    enqueue("ok")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [pid] = cursor.fetchone()
    session = locks.own_connection()
    try:
        with session.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
    finally:
        session.close()
    locks.drop_severed()
    assert enqueue("ok").pk


def test_one_at_a_time_is_in_a_guarded_block() -> None:
    space = uuid4().int % 2**31
    with (
        locks.guarding(space, 1) as first,
        locks.guarding(space, 1) as second,
        locks.guarding(space, 2) as other,
    ):
        assert (first, second, other) == (True, False, True)
    with locks.guarding(space, 1) as again:
        assert again


def test_a_guard_that_is_forgotten_is_ended_by_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As that of a frozen worker: the others go on without it."""
    monkeypatch.setattr(locks, "LONGEST_GUARD", 0.1)
    space = uuid4().int % 2**31

    def free() -> bool:
        with locks.guarding(space, 1) as alone:
            return alone

    with locks.guarding(space, 1) as first:
        assert first
        assert wait_until(free, message="the guard is still held")


def test_the_guard_holds_back_no_vacuum() -> None:
    """It is idle in its transaction, without a snapshot."""
    statement = """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
          AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
          AND state = 'idle in transaction'
    """
    with locks.guarding(uuid4().int % 2**31, 1), connection.cursor() as cursor:
        cursor.execute(statement)
        assert cursor.fetchone()[0] == 0


def test_a_refused_connection_is_djangos_error() -> None:
    settings = connections["default"].settings_dict
    usual = settings["PASSWORD"], settings["HOST"], settings["PORT"]
    settings["HOST"], settings["PORT"] = "127.0.0.1", 1
    try:
        with pytest.raises(OperationalError):
            locks.own_connection()
    finally:
        settings["PASSWORD"], settings["HOST"], settings["PORT"] = usual


def test_a_direct_alias_that_is_not_there_is_refused(settings: Any) -> None:
    settings.BUILDQUEUE = settings.BUILDQUEUE | {"DIRECT_DATABASE": "dircet"}
    with pytest.raises(preflight.CannotWork, match="'dircet', and DATABASES has no"):
        preflight.check()
