"""How is something killed before each of its statements in turn?

In a forked process with a connection of its own, which sends itself SIGKILL right before
its n-th statement or commit. Nothing of it can tidy up; the server finds the connection
gone. `all_or_nothing` kills an act everywhere, and looks at the tables after each time.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from typing import Any

from django.apps import apps
from django.db import connection, connections

from buildqueue.models import BuildJob, JobRun
from tests.host.models import Effect

from .jobs import fresh, kinds

WENT_WRONG = 3
MOST = 200  # statements of one act
Act = Callable[[], object]
Holds = Callable[[], object]


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


def all_or_nothing(act: Act, done: Holds) -> None:
    """Kill it before each statement: as before, or done."""
    before = _tables()
    for number in range(1, MOST):
        if not killed_before(number, act):
            assert number > 1, "it was never killed"
            assert done(), "it got through and is not as it should be"
            return
        if _tables() != before:
            assert done(), f"half done when killed before statement {number}"
            return  # committed: what follows are hints
    raise AssertionError("it never ends")


def ended_as(job: BuildJob, status: str, outcome: str | None, event: str) -> Holds:
    """Return what holds when the job's only run has ended so, with one event."""

    def holds() -> bool:
        run = JobRun.objects.get(job_id=job.pk)
        return (
            fresh(job).status == status
            and run.outcome == outcome
            and kinds(job) == [event]
        )

    return holds


def _tables() -> dict[str, list[Any]]:
    return {
        model._meta.label: sorted(map(str, model._default_manager.values_list()))
        for model in [*apps.get_app_config("buildqueue").get_models(), Effect]
        if model._meta.managed
    }


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
