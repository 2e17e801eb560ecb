"""What must be done from time to time, and who does it?

A child of the supervisor, replaced when it dies: rescue and maintenance run final hooks,
which are the host's code, and a supervisor runs none. Requests come from the supervisor
(a slot died, a stop hands jobs back); the rest is done on a tick, one process at a time
among all workers, by an advisory lock that is tried and never waited for.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from django.db import DatabaseError, InterfaceError, OperationalError
from django.utils.module_loading import import_string

from .. import conf, states
from ..exceptions import LostLeaseError
from ..models import BuildJob, Worker
from ..queue import database, recovery, transitions, wakeups
from ..queue.outcomes import WORKER, Cause
from ..states import JobStatus, RunOutcome, WorkerStatus
from . import locks
from .channel import Channel, Message
from .template import Order

logger = logging.getLogger(__name__)

LOCK_SPACE = 0x6271  # first half of the two-part advisory locks of duties


@dataclass(slots=True)
class _Tick:
    number: int
    seconds: float
    duty: Callable[[], None]
    shared: bool = True  # one process among all workers; else each worker its own
    due: float = 0.0


@dataclass(slots=True)
class Watch:
    """Since when has each silent worker's lock been missing?"""

    missing: dict[UUID, float] = field(default_factory=dict)

    def look(self, now: float, grace: float) -> list[UUID]:
        """Return the workers whose lock has been gone for the grace."""
        gone = locks.workers_without_lock()
        self.missing = {w: self.missing.get(w, now) for w in gone}
        return [w for w, since in self.missing.items() if now - since >= grace]


def serve(order: Order, control: Channel) -> None:
    """Serve requests and ticks until the supervisor is gone. Never returns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ticks = _ticks() if order["periodic"] else []
    control.send(ready=True)
    while not control.closed:
        now = time.monotonic()
        wait = max(0.0, min((tick.due for tick in ticks), default=now + 3600) - now)
        if select.select([control], [], [], wait)[0]:
            for request in control.receive():
                _serve_request(control, request)
        for tick in ticks:
            if time.monotonic() >= tick.due:
                tick.due = time.monotonic() + tick.seconds
                _guarded(tick)
    os._exit(0)


def _ticks() -> list[_Tick]:
    now = conf.get()
    watch = Watch()
    ticks = [
        _Tick(1, now.watch_seconds, lambda: _end_dead_workers(watch)),
        _Tick(2, now.rescue_seconds, _rescue),
        _Tick(3, now.maintenance_seconds, _retry_hooks),
    ]
    for number, path in enumerate(now.duties, start=100):
        duty = import_string(path)
        ticks.append(_Tick(number, now.maintenance_seconds, duty, shared=False))
    return ticks


def _guarded(tick: _Tick) -> None:
    """Run one duty; a failing one is told and does not stop the others."""
    try:
        with database.connection().cursor() as cursor:
            if tick.shared:
                lock = [LOCK_SPACE, tick.number]
                cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", lock)
                if not cursor.fetchone()[0]:
                    return
            try:
                tick.duty()
            finally:
                if tick.shared:
                    cursor.execute("SELECT pg_advisory_unlock(%s, %s)", lock)
    except (DatabaseError, InterfaceError) as error:
        logger.warning("duty failed, tried again later: %s", error)
        database.connection().close()
    except Exception:  # a duty of the host's: told, and tried again at the next tick
        logger.exception("duty failed, tried again later")


def _serve_request(control: Channel, request: Message) -> None:
    """Serve a request until it is done: nobody else would."""
    pause = 0.05
    while True:
        try:
            done = _do(request)
            break
        except (DatabaseError, InterfaceError) as error:
            logger.warning("request failed, trying again: %s", error)
            database.connection().close()
            time.sleep(pause)
            pause = min(pause * 2, 2.0)
    control.send(served=request, count=done)


def _do(request: Message) -> int:
    if request["do"] == "recover":
        return recovery.rescue_expired()
    slot = UUID(request["slot"])
    _wait_for_lock(slot)
    if request["do"] == "hand_back":
        return hand_back(slot)
    return recovery.rescue_slot(slot, Cause(**request["cause"]))


def _wait_for_lock(slot: UUID) -> None:
    """Wait until the dead slot's session is gone: its claim could still commit."""
    session = locks.own_connection()
    try:
        locks.wait_until_free(session, slot, seconds=30)
    except OperationalError as error:
        logger.warning("the session of slot %s is still there: %s", slot, error)
    finally:
        session.close()


def hand_back(slot: UUID) -> int:
    """Release what a stopped slot held: pending again, nothing counted."""
    jobs = BuildJob.objects.using(database.alias())
    count = 0
    for job in jobs.filter(slot=slot, status=JobStatus.IN_PROGRESS):
        change = transitions.Change(
            transition=states.HAND_BACK,
            target=JobStatus.PENDING,
            actor=WORKER,
            reason="the worker stopped",
            run={"outcome": RunOutcome.RELEASED},
        )
        try:
            transitions.apply(job.pk, change, fence=job.lease_id)
        except LostLeaseError:
            continue
        count += 1
    stopped = Cause(
        outcome=RunOutcome.RELEASED, code="stopped", message="the worker stopped"
    )
    runs = recovery.runs_of_slot(slot)
    recovery.end_revoked_runs(runs, stopped)
    return count


def _end_dead_workers(watch: Watch) -> None:
    dead = watch.look(time.monotonic(), conf.get().watch_grace_seconds)
    for worker in dead:
        rescued = recovery.rescue_worker(worker)
        alive = [WorkerStatus.RUNNING, WorkerStatus.DRAINING]
        workers = Worker.objects.using(database.alias())
        workers.filter(pk=worker, status__in=alive).update(status=WorkerStatus.LOST)
        logger.warning("worker %s died; %d jobs rescued", worker, rescued)


def _rescue() -> None:
    recovery.rescue_expired()
    for queue in transitions.promote_due():
        wakeups.wake(queue)


def _retry_hooks() -> None:
    recovery.retry_hooks()
