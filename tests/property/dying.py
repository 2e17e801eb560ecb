"""How does an act die in the middle? By SIGKILL of its process, or by a cut connection.

At a point of its own choice: after the statement that changes the job, in the final hook,
right before the commit, right after it. What was not committed has not happened.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import psycopg
from django.db import connection, connections

from tests.support.scratch import url_of
from tests.support.waiting import wait_until

Point = Literal["update", "event", "hook", "commit", "committed", "outside"]
POINTS: tuple[Point, ...] = (
    "update",
    "event",
    "hook",
    "commit",
    "committed",
    "outside",
)
STATEMENTS = {
    "update": ("UPDATE", "WITH candidates"),
    "event": ('INSERT INTO "buildqueue_jobevent"',),
}
Strike = Callable[[], None]
in_hook: list[Strike] = []  # what a final hook, or an effect outside, is to do
in_effect: list[Strike] = []
not_ours: list[object] = []


@contextmanager
def struck_at(point: Point, strike: Strike) -> Iterator[None]:
    """Strike when what is done on this process's connection reaches the point."""

    def after(
        execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any
    ) -> Any:
        answer = execute(sql, params, many, context)
        if sql.lstrip().startswith(STATEMENTS[point]):
            strike()
        return answer

    usual = connection._commit

    def commit() -> None:
        if point == "commit":
            strike()
        usual()
        if point == "committed":
            strike()

    if point in STATEMENTS:
        with connection.execute_wrapper(after):
            yield
        return
    hooks = {"hook": in_hook, "outside": in_effect}.get(point, [])
    hooks.append(strike)
    connection._commit = commit  # type: ignore[method-assign]
    try:
        yield
    finally:
        hooks.clear()
        del connection._commit  # type: ignore[attr-defined]


def by_cut(act: Callable[[], object], point: Point) -> bool:
    """Do it on a connection that the server ends at the point; tell whether it did."""
    connection.ensure_connection()
    pid = connection.connection.info.backend_pid
    cut: list[bool] = []

    def strike() -> None:
        if cut:
            return
        cut.append(True)
        end_backend(pid)

    try:
        with struck_at(point, strike):
            act()
    except Exception:  # whatever a lost connection makes of it
        if not cut:
            raise
    if cut:
        connection.close()
    return bool(cut)


def end_backend(pid: int) -> None:
    """Have the server end a session, and wait until it is gone with its locks."""
    url = url_of(connection.settings_dict["NAME"])
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 30000)", [pid])


def by_kill(act: Callable[[], object], point: Point) -> bool:
    """Do it in a child that gets SIGKILL at the point; tell whether it did."""
    ready, tell = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
        child = os.fork()
    if child == 0:
        try:
            _be_the_child(act, point, tell)
        finally:
            os._exit(1)
    os.close(tell)
    with os.fdopen(ready) as told:
        backend = int(told.readline())
    _, status = os.waitpid(child, 0)
    wait_until(lambda: not _is_there(backend), message="the child's session stays")
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert killed or os.waitstatus_to_exitcode(status) == 0, "the child went wrong"
    return killed


def _be_the_child(act: Callable[[], object], point: Point, tell: int) -> None:
    # The parent's session is not to be touched, not even closed by being forgotten.
    not_ours.append(connection.connection)
    connections["default"].connection = None
    connection.ensure_connection()
    os.write(tell, f"{connection.connection.info.backend_pid}\n".encode())
    os.close(tell)

    def strike() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    try:
        with struck_at(point, strike):
            act()
    except Exception as refused:  # the machine's own look tells what is allowed
        os._exit(0 if type(refused).__module__.startswith("buildqueue") else 1)
    os._exit(0)


def _is_there(backend: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [backend])
        return cursor.fetchone() is not None
