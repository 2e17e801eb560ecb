"""What happens in one run? Handler, payload, call, outcome, transition, in this order.

Anything a handler returns or raises becomes one outcome; `judging` maps it to one
transition, and nothing else reports. The report carries the fence: when the lease
is gone nothing is written. If the process dies before the report commits, the run is
rescued; after it the job is where the outcome put it.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from dataclasses import dataclass, replace

import psycopg
from django.db import DatabaseError, InterfaceError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from .. import conf
from ..exceptions import LostLeaseError, UnknownKind
from ..models import BuildJob
from ..queue import (
    actions,
    database,
    failures,
    handlers,
    leases,
    recovery,
    transitions,
)
from ..queue.context import Context
from ..queue.limits import Limits
from ..queue.outcomes import Done, Fail, Outcome, Retry, WaitForApproval
from ..queue.transitions import Change
from ..states import RunOutcome
from . import judging, limiting, telling
from .telling import Ending

logger = logging.getLogger(__name__)

ENDS_A_TASK = (asyncio.CancelledError, GeneratorExit)
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
        if not _still_held(job):
            _end_revoked(job)
            return telling.TAKEN_AWAY
        # The handler's own word, or about another job: nobody else will end this one.
        outcome = _said(lost)
    try:
        return _report(job, _measured(judging.change_of(job, outcome), before))
    except Exception as refused:  # what a handler answers may break in any way
        # It cannot be stored, and never will be.
        logger.exception("the outcome cannot be stored")
        reason = f"its outcome cannot be stored: {failures.text_of(refused)}"
        _leave_transactions(entered)
        refusal = Fail(reason=reason[: failures.MAX_MESSAGE], code="outcome_refused")
        return _report(job, judging.change_of(job, refusal))


def _still_held(job: BuildJob) -> bool:
    """Tell whether the run may go on; unknown is no: then its lease runs out."""
    assert job.lease_id is not None
    try:
        return bool(leases.held([job.lease_id]))
    except (DatabaseError, InterfaceError) as error:
        logger.warning("whether its lease is held is not known: %s", error)
        return False


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
    return _report(job, judging.hand_back_change({"outcome": RunOutcome.RELEASED}))


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
        alarm = limiting.soft.alarm if session is not None else None
        ctx = Context(job=job, lease_id=job.lease_id, session=session, alarm=alarm)
        with limiting.handler_runs():
            returned = known.function(ctx, payload)
        return _outcome(job, returned)
    except LostLeaseError:
        raise
    except SystemExit as left:
        code = failures.text_of(left) if left.args else ""
        return Retry(reason=f"the handler called sys.exit({code})", code="exited")
    except Exception as error:  # whatever a handler raises is an outcome
        return _said(error)
    except BaseException as error:  # so is what is meant to end a task or a program
        if session is None and not isinstance(error, ENDS_A_TASK):
            raise  # no slot: the Ctrl-C, or the failure, of a host's own test
        return _said(error)
    finally:
        _cut_interrupted_queries()
        _leave_transactions(entered)


def _said(error: BaseException) -> Outcome:
    outcome = failures.outcome_of(error)
    told = getattr(outcome, "traceback", None) or getattr(outcome, "reason", "")
    logger.error("%s", told)
    return outcome


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


def _outcome(job: BuildJob, returned: object) -> Outcome:
    if returned is None:
        return Done()
    if isinstance(returned, WaitForApproval) and not actions.any_of(job):
        reason = "it waits for a decision and has proposed nothing: ctx.propose first"
        return Fail(reason=reason, code="nothing_to_wait_for")
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


def _end_revoked(job: BuildJob) -> None:
    """Close the run, if it was revoked: nothing of it runs any more, its key is free."""
    assert job.lease_id is not None
    try:
        recovery.end_own_run(job.lease_id)
    except (DatabaseError, InterfaceError) as error:
        logger.warning("the run is closed later, by a rescue: %s", error)
