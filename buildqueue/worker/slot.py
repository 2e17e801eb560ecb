"""What does a slot do? Claim a job, run it, report, and wait for the next order.

It claims in a session of its own that holds a lock on its incarnation, so that whoever
sees the lock free knows that no claim of this process can still commit (not behind a
pooler: there it has no lock, and says so). Handlers never
see that session. Every claim is asked for by the supervisor; every run waits for the
supervisor's "go", which means that its lease is watched and its output is known as this
run's. If the process dies before the "go", the job was claimed and not started: it is
handed back, and counts nothing.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from dataclasses import replace
from datetime import timedelta
from typing import NoReturn
from uuid import UUID

from django.db import DatabaseError, InterfaceError
from django.db.backends.base.base import BaseDatabaseWrapper

from ..models import BuildJob
from ..queue import claiming, database, handlers
from ..queue.claiming import Scope
from ..queue.transitions import Holder
from . import limiting, linux, locks, runner
from .channel import Channel
from .child import NO_DATABASE
from .template import Order


def serve(order: Order, control: Channel) -> None:
    """Serve the supervisor's orders until told to stop. Never returns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    slot = UUID(order["slot"])
    try:
        session = locks.own_connection()
        # Behind a pooler the session is not its own, and a lock would be left to others.
        locked = order["direct"] and locks.hold(session, slot)
    except (DatabaseError, InterfaceError) as error:
        control.send(trouble=str(error))
        _leave(NO_DATABASE)
    holder = Holder(
        worker=UUID(order["worker"]),
        slot=slot,
        pid=os.getpid(),
        lease=timedelta(seconds=order["lease_seconds"]),
    )
    scope = Scope(
        queues=tuple(order["queues"]), capabilities=tuple(order["capabilities"])
    )
    control.send(ready=True, locked=locked)
    Slot(control, session, scope, holder).work(order["max_jobs"])
    _leave(0)


class Slot:
    """One process, from its first claim to its last report."""

    def __init__(
        self,
        control: Channel,
        session: BaseDatabaseWrapper,
        scope: Scope,
        holder: Holder,
    ) -> None:
        self._control, self._session = control, session
        self._scope, self._holder = scope, holder
        self._stale = False  # a job waits that wants a fresh process
        self._threads = set(threading.enumerate())  # before any job

    def work(self, max_jobs: int) -> None:
        """Serve one order after the other."""
        done = 0
        while (order := self._control.next()) and "claim" in order:
            claimed_at = linux.boottime()
            job = self._claim(used=done > 0)
            if job is None:
                self._control.send(idle=True, stale=self._stale)
                continue
            needs = runner.needs_of(job)
            bounds = limiting.begin(needs.limits, self._holder.slot)
            self._tell_of(job, needs, bounds, claimed_at)
            if (answer := self._control.next()) is None:
                return
            ending = (
                runner.run(job, self._session)
                if answer["go"]
                else runner.hand_back(job)
            )
            done += 1
            _flush()
            # What a run left running would write into the next one's log, and a bound
            # that stays would be the next one's.
            left = linux.has_children() or self._has_threads()
            spent = done >= max_jobs or left or bounds.lasting
            self._control.send(
                ended=str(job.lease_id),
                leaving=needs.isolated or spent,
                how=ending.how,
                level=ending.level,
            )

    def _tell_of(
        self,
        job: BuildJob,
        needs: runner.Needs,
        bounds: limiting.Enclosure,
        claimed_at: float,
    ) -> None:
        self._control.send(
            started=str(job.lease_id),
            job=str(job.pk),
            kind=job.kind,
            attempt=job.attempt,
            time_limit=needs.limits.time_seconds,
            soft_limit=needs.limits.soft_time_seconds,
            services=needs.services,
            claimed_at=claimed_at,
            **bounds.told(),
        )

    def _has_threads(self) -> bool:
        """Tell whether a run has left a thread; the engine's own clocks are none."""
        alive = set(threading.enumerate()) - self._threads
        return any(thread.name != limiting.CLOCK for thread in alive)

    def _claim(self, *, used: bool) -> BuildJob | None:
        # What ran before may have left its traces: kinds that want a fresh process are
        # for the next incarnation.
        scope = replace(self._scope, kinds=_warm_kinds()) if used else self._scope
        if database.severed(self._session):
            _leave(NO_DATABASE)  # with its lock: the next one has a new session
        try:
            with database.through(self._session):
                found = claiming.claim(scope, self._holder)
                self._stale = not found and claiming.other_kinds_wait(scope)
        except (DatabaseError, InterfaceError) as error:
            # Whether it did commit is not known: the next one starts from what is.
            self._control.send(trouble=str(error))
            _leave(NO_DATABASE)
        return found[0] if found else None


def _warm_kinds() -> tuple[str, ...]:
    return tuple(name for name in handlers.names() if not handlers.get(name).isolated)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # a handler closed it: nothing is left to flush
            continue


def _leave(code: int) -> NoReturn:
    _flush()
    os._exit(code)
