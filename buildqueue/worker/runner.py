"""What happens in one run? Handler, payload, call, outcome, transition, in this order.

Anything a handler returns or raises becomes one outcome; the one `match` below maps it
to a transition, and nothing else reports. The report carries the fence: when the lease
is gone nothing is written. If the process dies before the report commits, the run is
rescued; after it the job is where the outcome put it.
"""

from __future__ import annotations

import logging
import resource
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, assert_never

import psycopg
from django.db import DatabaseError, InterfaceError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F
from django.db.models.functions import Now

from .. import conf, states
from ..exceptions import LostLeaseError, UnknownKind
from ..models import BuildJob
from ..queue import database, failures, handlers, questions, recovery, transitions
from ..queue.context import Context
from ..queue.limits import Limits
from ..queue.outcomes import (
    WORKER,
    Cancel,
    Done,
    Fail,
    Outcome,
    Retry,
    Snooze,
    Wait,
    WaitForApproval,
    WaitForChildren,
    WaitForInput,
)
from ..queue.transitions import Change
from ..states import JobStatus, RunOutcome
from . import limiting, telling
from .telling import Ending

logger = logging.getLogger(__name__)

WHOSE = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What the supervisor must know of a run that is about to start."""

    limits: Limits
    isolated: bool = False
    services: tuple[str, ...] = ()


def needs_of(job: BuildJob) -> Needs:
    """Return what the job's run needs; its own limits go before its kind's."""
    own = Limits.of(job.limits)
    try:
        known = handlers.get(job.kind)
    except UnknownKind:
        return Needs(limits=own)
    return Needs(
        limits=own.over(known.limits),
        isolated=known.isolated,
        services=known.services,
    )


def run(job: BuildJob, session: BaseDatabaseWrapper | None = None) -> Ending:
    """Run one claimed job, report how it ended, and return that in words.

    The session is a connection that the handler does not see.
    """
    entered, before = database.open_blocks(), _cpu_seconds()
    try:
        outcome = call(job, session)
    except LostLeaseError as lost:
        logger.warning("run stopped: %s", lost)
        _end_revoked(job)
        return telling.TAKEN_AWAY
    try:
        return _report(job, _measured(change_of(job, outcome), before))
    except (DatabaseError, ValueError, TypeError) as refused:
        # The database does not take what the handler answered, and never will.
        logger.exception("the outcome cannot be stored")
        reason = f"its outcome cannot be stored: {refused}"[: failures.MAX_MESSAGE]
        _leave_transactions(entered)
        refusal = Fail(reason=reason, code="outcome_refused")
        return _report(job, change_of(job, refusal))


def _cpu_seconds() -> float:
    """Return what this process and its ended children have used so far."""
    used = [resource.getrusage(whose) for whose in WHOSE]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _measured(change: Change, before: float) -> Change:
    """Return the change with what the run has used; the peak is of its whole process."""
    peak = max(resource.getrusage(whose).ru_maxrss for whose in WHOSE) * 1024
    used = {"cpu_seconds": _cpu_seconds() - before, "peak_memory_bytes": peak}
    return replace(change, run=used | (change.run or {}))


def hand_back(job: BuildJob) -> Ending:
    """Give back a job that was claimed and is not to be started: nothing counted."""
    return _report(job, hand_back_change({"outcome": RunOutcome.RELEASED}))


def call(job: BuildJob, session: BaseDatabaseWrapper | None = None) -> Outcome:
    """Call the handler of a claimed job and return what it answered or raised.

    Reports nothing. LostLeaseError when the job was taken from the run meanwhile.
    """
    assert job.lease_id is not None
    _refresh_connections()
    entered = database.open_blocks()
    try:
        known = handlers.get(job.kind)
        payload = known.parse(job.payload)
        assert known.function is not None
        ctx = Context(job=job, lease_id=job.lease_id, session=session)
        with limiting.handler_runs():
            returned = known.function(ctx, payload)
        return _outcome(returned)
    except LostLeaseError:
        raise
    except SystemExit as left:
        return Retry(reason=f"the handler called sys.exit({left.code})", code="exited")
    except Exception as error:  # whatever a handler raises is an outcome
        outcome = failures.outcome_of(error)
        logger.error("%s", getattr(outcome, "traceback", None) or error)
        return outcome
    finally:
        _cut_interrupted_queries()
        _leave_transactions(entered)


def _cut_interrupted_queries() -> None:
    """Drop connections on which a query still runs: a soft limit has cut it short."""
    for connection in connections.all(initialized_only=True):
        lower = connection.connection
        if not isinstance(lower, psycopg.Connection) or lower.closed:
            continue
        if lower.info.transaction_status is psycopg.pq.TransactionStatus.ACTIVE:
            lower.cancel()  # else the server would go on with it
            lower.close()
            connection.close()


def _outcome(returned: object) -> Outcome:
    if returned is None:
        return Done()
    if isinstance(returned, Outcome):
        return returned
    kind = type(returned).__name__
    return Fail(reason=f"the handler returned {kind}, no outcome", code="no_outcome")


def _refresh_connections() -> None:
    """Let the handler find no connection that the server has closed meanwhile."""
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block:
            continue  # a test's transaction: a slot has none between two runs
        if connection.alias != database.alias():
            connection.close_if_unusable_or_obsolete()
        elif connection.errors_occurred or database.severed(connection):
            connection.close()


def _leave_transactions(entered: int) -> None:
    """Drop a transaction that the handler left open: the report is one of its own.

    In a test's transaction, whose blocks were entered before, only what is within it.
    """
    if entered:
        database.leave_blocks(entered)
        return
    connection = database.connection()
    open_block = connection.in_atomic_block or connection.needs_rollback
    if open_block or not connection.autocommit:
        # A new one: a connection closed inside a block of its own stays unusable.
        connection.close()
        del connections[database.alias()]


def _report(job: BuildJob, change: Change) -> Ending:
    """Apply the outcome; a lost connection is tried again while the lease may live.

    The lease is renewed meanwhile if the database is there, and its end is the end of
    this process.
    """

    def apply() -> BuildJob:
        return transitions.apply(job.pk, change, fence=job.lease_id)

    until = time.monotonic() + 2 * conf.get().lease_seconds
    try:
        ended = database.keep_trying(apply, until=until, what="the report")
    except LostLeaseError as lost:
        # Either a person or a rescuer took it, or an earlier try did commit.
        logger.warning("report not taken: %s", lost)
        _end_revoked(job)
        return telling.TAKEN_AWAY
    return telling.ending_of(ended, change)


def hand_back_change(run_ends: dict[str, Any]) -> Change:
    """Return the change for a job that goes back because the worker stops."""
    return Change(
        transition=states.HAND_BACK,
        target=JobStatus.PENDING,
        actor=WORKER,
        reason="the worker stopped",
        run=run_ends,
    )


def _end_revoked(job: BuildJob) -> None:
    """Close the run, if it was revoked: nothing of it runs any more, its key is free."""
    assert job.lease_id is not None
    try:
        recovery.end_own_run(job.lease_id)
    except (DatabaseError, InterfaceError) as error:
        logger.warning("the run is closed later, by a rescue: %s", error)


def change_of(job: BuildJob, outcome: Outcome) -> Change:
    """Return the one transition that an outcome stands for."""
    match outcome:
        case Done():
            ended: dict[str, Any] = {"outcome": RunOutcome.SUCCEEDED}
            return _change(
                states.FINISH, JobStatus.DONE, {"result": outcome.result}, ended
            )
        case Retry():
            return _failed(job, outcome)
        case Fail():
            values = {"failures": F("failures") + 1} | _error(outcome)
            return _change(states.FAIL, JobStatus.FAILED, values, _failed_run(outcome))
        case Snooze():
            values = {"due_at": Now() + timedelta(seconds=outcome.delay_seconds)}
            why = outcome.reason or None
            ended = {"outcome": RunOutcome.WAITING, "error_msg": why}
            return _change(states.SNOOZE, JobStatus.SCHEDULED, values, ended)
        case Cancel():
            values = {"error_code": "withdrawn", "error_msg": outcome.reason}
            ended = {"outcome": RunOutcome.SUCCEEDED, "error_msg": outcome.reason}
            return _change(states.WITHDRAW, JobStatus.CANCELLED, values, ended)
        case WaitForInput() | WaitForApproval() | WaitForChildren():
            return _wait(outcome)
        case _:
            assert_never(outcome)


def _wait(outcome: Wait) -> Change:
    """Wait for a person or for children: the slot is free meanwhile."""
    match outcome:
        case WaitForInput():
            target = JobStatus.WAITING_INPUT
            waits_for = questions.stored(outcome.question, outcome.fields)
            why = outcome.question
        case WaitForApproval():
            target, waits_for = JobStatus.WAITING_APPROVAL, {"for": "approval"}
            why = outcome.reason
        case WaitForChildren():
            target = JobStatus.WAITING_CHILDREN
            waits_for = {"for": "children", "on_failure": outcome.on_failure}
            why = ""
        case _:
            assert_never(outcome)
    made = _change(states.WAIT, target, {}, {"outcome": RunOutcome.WAITING})
    return replace(made, reason=why, waits_for=waits_for)


def _failed(job: BuildJob, outcome: Retry) -> Change:
    """Tried again later, or not at all once the allowance is spent."""
    count = job.failures + 1
    counted: dict[str, Any] = {"failures": F("failures") + 1}
    if count + job.crashes >= job.max_attempts:
        spent = {
            "error_code": "max_attempts_exhausted",
            "error_msg": f"max attempts exceeded: {outcome.reason}",
        }
        return _change(
            states.FAIL, JobStatus.FAILED, counted | spent, _failed_run(outcome)
        )
    delay = outcome.delay_seconds
    if delay is None:
        delay = handlers.backoff_of(job.kind).delay(count)
    later = {"due_at": Now() + timedelta(seconds=delay)}
    values = counted | later | _error(outcome)
    made = _change(
        states.RETRY_LATER, JobStatus.SCHEDULED, values, _failed_run(outcome)
    )
    made.detail["delay_seconds"] = round(delay, 3)
    return made


def _error(outcome: Retry | Fail) -> dict[str, Any]:
    return {"error_code": outcome.code, "error_msg": outcome.reason}


def _failed_run(outcome: Retry | Fail) -> dict[str, Any]:
    return {
        "outcome": RunOutcome.FAILED,
        "traceback": outcome.traceback,
        "error_class": outcome.blame,
        **_error(outcome),
    }


def _change(
    transition: states.Transition,
    target: JobStatus,
    values: dict[str, Any],
    run_ends: dict[str, Any],
) -> Change:
    told = {k: v for k, v in run_ends.items() if k in {"error_code", "error_msg"} and v}
    return Change(
        transition=transition,
        target=target,
        actor=WORKER,
        reason=str(told.get("error_msg", "")),
        values=values,
        run=run_ends,
        detail=told,
    )
