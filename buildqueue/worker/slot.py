"""What does a slot do? Claim a job, run it, report, and wait for the next order.

It holds a session lock on its incarnation before it claims, so that whoever sees the
lock free knows that no claim of this process can still commit. Every claim is asked for
by the supervisor; every run waits for the supervisor's "go", which means that its output
will be known as this run's.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from django.db import DatabaseError, InterfaceError, close_old_connections

from ..models import BuildJob
from ..queue import claiming, database, handlers
from ..queue.claiming import Scope
from ..queue.transitions import Holder
from . import locks, runner
from .channel import Channel
from .template import Order

logger = logging.getLogger(__name__)

NO_DATABASE = 75  # EX_TEMPFAIL: the supervisor starts another one a little later


def serve(order: Order, control: Channel) -> None:
    """Serve the supervisor's orders until told to stop. Never returns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    slot = UUID(order["slot"])
    try:
        session = locks.own_connection()
        locks.hold(session, slot)
        database.connection().ensure_connection()
    except DatabaseError as error:
        sys.stderr.write(f"no connection to the database: {error}\n")
        os._exit(NO_DATABASE)
    holder = Holder(
        worker=UUID(order["worker"]),
        slot=slot,
        pid=os.getpid(),
        lease=timedelta(seconds=order["lease_seconds"]),
    )
    scope = Scope(
        queues=tuple(order["queues"]), capabilities=tuple(order["capabilities"])
    )
    control.send(ready=True)
    _loop(control, scope, holder, order["max_jobs"])
    _leave()


def _loop(control: Channel, scope: Scope, holder: Holder, max_jobs: int) -> None:
    done = 0
    while (order := control.next()) and "claim" in order:
        # What ran before may have left its traces: kinds that want a fresh process are
        # for the next incarnation.
        warm = replace(scope, kinds=_warm_kinds()) if done else scope
        job = _claim(warm, holder)
        if job is None:
            control.send(idle=True, used=done > 0)
            continue
        limits = runner.limits_of(job)
        control.send(
            started=str(job.lease_id),
            job=str(job.pk),
            kind=job.kind,
            attempt=job.attempt,
            time_limit=limits.time_limit_seconds,
        )
        if control.next() is None:
            return
        runner.run(job)
        done += 1
        _flush()
        leaving = limits.isolated or done >= max_jobs
        control.send(ended=str(job.lease_id), leaving=leaving)


def _warm_kinds() -> tuple[str, ...]:
    return tuple(name for name in handlers.names() if not handlers.get(name).isolated)


def _claim(scope: Scope, holder: Holder) -> BuildJob | None:
    close_old_connections()
    try:
        found = claiming.claim(scope, holder)
    except (DatabaseError, InterfaceError) as error:
        logger.warning("claim failed: %s", error)
        database.connection().close()
        return None
    return found[0] if found else None


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()


def _leave() -> None:
    _flush()
    os._exit(0)
