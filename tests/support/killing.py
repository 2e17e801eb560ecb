"""How is something killed before each of its statements in turn?

In a forked process with a connection of its own, which sends itself SIGKILL right before
its n-th statement or commit. Nothing of it can tidy up; the server finds the connection
gone.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from typing import Any

from django.db import connection, connections

WENT_WRONG = 3


def killed_before(number: int, act: Callable[[], object]) -> bool:
    """Do it in a process that dies before its n-th statement, from 1; false: it was done.

    Fails when it raised.
    """
    pid = os.fork()
    if pid == 0:
        try:
            _do(number, act)
        except BaseException:  # told here: nothing may leave this process
            traceback.print_exc()
            os._exit(WENT_WRONG)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "what was to be killed raised; see its output"
    return False


def _do(number: int, act: Callable[[], object]) -> None:
    # The inherited socket belongs to the parent: it is left alone, and not closed.
    own: Any = connection.copy()
    connections["default"] = own
    own.connect()
    left = number

    def die_in_time() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def count(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
        die_in_time()
        return execute(sql, params, many, context)

    commit = own._commit

    def commit_or_die() -> None:
        die_in_time()
        commit()

    own._commit = commit_or_die
    with own.execute_wrapper(count):
        act()
