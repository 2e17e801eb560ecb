"""What must be done from time to time, and who does it?

A child of the supervisor, replaced when it dies: rescue and maintenance run final hooks,
which are the host's code, and a supervisor runs none. Requests come from the supervisor
(a slot or another worker died, a stop hands jobs back); the rest is done on a tick,
retention, notices and the host's own duties in threads, so that a slow one keeps no
rescue waiting. Workers may do the same at the same time: each change is guarded, one of
them wins.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from uuid import UUID

from django.db import InterfaceError, OperationalError
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils.module_loading import import_string

from .. import conf
from ..models import BuildJob, Worker
from ..queue import database, recovery, retention, transitions, wakeups
from ..queue.outcomes import WORKER, Cause
from ..states import JobStatus, WorkerStatus
from . import locks, telling
from .channel import Channel, Message
from .outages import Outages
from .postman import Postman
from .template import Order

logger = logging.getLogger(__name__)

LOCK_SPACE = 0x6271  # first half of the two-part advisory locks of duties
LOCK_NOT_AVAILABLE = "55P03"
AGAIN_SECONDS = 2.0  # a claim without a session lock may commit after its slot's death
ALIVE = [WorkerStatus.RUNNING, WorkerStatus.DRAINING]


@dataclass(slots=True)
class _Tick:
    seconds: float
    duty: Callable[[], object]
    lock: int | None = None  # one process among all workers at a time
    due: float = 0.0

    @property
    def name(self) -> str:
        """Return what the duty is called in the worker's output."""
        function = self.duty.func if isinstance(self.duty, partial) else self.duty
        return f"the duty {getattr(function, '__name__', function)}".replace("_", " ")


def serve(order: Order, control: Channel) -> None:
    """Serve requests and ticks until the supervisor is gone. Never returns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    telling.log_to_stderr()
    locks.steady_here()
    outages = Outages(lambda trouble: control.send(trouble=trouble))
    ticks = []
    if order["periodic"]:
        postman = Postman(outages)
        postman.start()
        ticks = _ticks(postman)
        slow = [_slow_tick(), *_host_ticks()]
        threading.Thread(target=_keep, args=[slow, outages], daemon=True).start()
    control.send(ready=True)
    again: deque[tuple[float, Message]] = deque()  # by the moment
    while not control.closed:
        now = time.monotonic()
        moments = [*(tick.due for tick in ticks), *(moment for moment, _ in again)]
        wait = max(0.0, min(moments, default=now + 3600) - now)
        if select.select([control], [], [], wait)[0]:
            for request in control.receive():
                _serve_request(control, request, outages)
                if request.get("locked") is False:
                    again.append((time.monotonic() + AGAIN_SECONDS, request))
        while again and time.monotonic() >= again[0][0]:
            _serve_request(control, again.popleft()[1], outages)
        _do_due(ticks, outages)
    os._exit(0)


def _do_due(ticks: list[_Tick], outages: Outages) -> None:
    for tick in ticks:
        if time.monotonic() >= tick.due:
            tick.due = time.monotonic() + tick.seconds
            _guarded(tick, outages)


def _keep(ticks: list[_Tick], outages: Outages) -> None:
    locks.steady_here()
    while True:
        _do_due(ticks, outages)
        time.sleep(max(0.0, min(tick.due for tick in ticks) - time.monotonic()))


def _ticks(postman: Postman) -> list[_Tick]:
    now = conf.get()
    return [
        _Tick(now.rescue_seconds, partial(_rescue, postman)),
        _Tick(now.maintenance_seconds, _retry_hooks, lock=1),
        _Tick(now.maintenance_seconds, recovery.repair_pairs, lock=3),
        _Tick(now.maintenance_seconds, _mark_silent_workers),
    ]


def _slow_tick() -> _Tick:
    """Return the duty of ours that may take long: beside the host's, not the rescue's."""
    return _Tick(conf.get().maintenance_seconds, retention.prune, lock=2)


def _host_ticks() -> list[_Tick]:
    now = conf.get()
    ticks = []
    for path in now.duties:
        try:
            ticks.append(_Tick(now.maintenance_seconds, import_string(path)))
        except ImportError:
            logger.exception("duty %s cannot be loaded", path)
    return ticks


def _guarded(tick: _Tick, outages: Outages) -> None:
    """Run one duty; a failing one is told and does not stop the others."""
    try:
        locks.drop_severed()
        if tick.lock is None:
            tick.duty()
        else:
            _alone(tick.lock, tick.duty)
        outages.well(tick.name)
    except (OperationalError, InterfaceError) as error:
        outages.failed(tick.name, error)
        database.connection().close()
    except Exception:  # a duty of the host's: told, and tried again at the next tick
        logger.exception("duty failed, tried again later")
        database.connection().close()


def _alone(lock: int, duty: Callable[[], object]) -> None:
    """Run a duty unless another worker does."""
    with locks.guarding(LOCK_SPACE, lock) as alone:
        if alone:
            duty()


def _serve_request(control: Channel, request: Message, outages: Outages) -> None:
    """Serve a request until it is done: nobody else would."""
    while True:
        try:
            locks.drop_severed()
            done = _do(request)
            outages.well("rescue")
            break
        except (OperationalError, InterfaceError) as error:
            database.connection().close()
            time.sleep(outages.failed("rescue", error))
        except Exception:  # a fault of ours must not keep the other requests waiting
            logger.exception("request given up; the end of the leases will do it")
            done = 0
            break
    control.send(served=request, count=done)


def _do(request: Message) -> int:
    if request["do"] == "recover":
        return recovery.rescue_expired()
    if request["do"] == "rescue_worker":
        return bury_worker(UUID(request["worker"]))
    slot = UUID(request["slot"])
    if request["locked"]:
        _wait_for_lock(slot)
    cause = Cause(**request["cause"])
    if request["do"] == "hand_back":
        return hand_back(slot, cause)
    started = UUID(request["started"]) if request["started"] else None
    return recovery.rescue_slot(slot, cause, started=started)


def _wait_for_lock(slot: UUID) -> None:
    """Wait until the dead slot's session is gone: its claim could still commit."""
    session = locks.own_connection()
    try:
        locks.wait_until_free(session, slot, seconds=30)
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) != LOCK_NOT_AVAILABLE:
            raise
        logger.warning("the session of slot %s is still there: %s", slot, error)
    finally:
        session.close()


def hand_back(slot: UUID, cause: Cause) -> int:
    """Release what a stopped slot held: pending again, nothing counted."""
    jobs = BuildJob.objects.using(database.alias())
    held = jobs.filter(slot=slot, status=JobStatus.IN_PROGRESS)
    why = "the worker stopped"
    count = sum(recovery.give_back(j, cause, reason=why, actor=WORKER) for j in held)
    recovery.end_revoked_runs(recovery.runs_of_slot(slot), cause)
    return count


def bury_worker(worker: UUID) -> int:
    """Rescue what a worker held whose session is gone, and say that it is lost."""
    rescued = recovery.rescue_worker(worker)
    _mark_lost(Worker.objects.filter(pk=worker))
    logger.warning("worker %s died; %d jobs rescued", worker, rescued)
    return rescued


def _mark_lost(workers: QuerySet[Worker]) -> None:
    alive = workers.using(database.alias()).filter(status__in=ALIVE)
    alive.update(status=WorkerStatus.LOST)


# One statement tells whether there is anything to do: an idle worker stays cheap.
ANYTHING = """
SELECT EXISTS (SELECT 1 FROM buildqueue_buildjob
               WHERE status = 'in_progress' AND lease_until < now())
    OR EXISTS (SELECT 1 FROM buildqueue_jobrun
               WHERE ended_at IS NULL AND expires_at < now())
    OR EXISTS (SELECT 1 FROM buildqueue_buildjob
               WHERE status = 'scheduled' AND due_at < now()),
       EXISTS (SELECT 1 FROM buildqueue_notice
               WHERE status = 'pending' AND due_at < now())
"""


def _rescue(postman: Postman) -> None:
    with database.connection().cursor() as cursor:
        cursor.execute(ANYTHING)
        anything, notices = cursor.fetchone()
    if notices:
        postman.tell()
    if not anything:
        return
    recovery.rescue_expired()
    for queue in transitions.promote_due():
        wakeups.wake(queue)


def _mark_silent_workers() -> None:
    """Say that workers are lost that nobody can prove dead, as behind a pooler.

    Only their rows: their jobs are rescued when the leases are over.
    """
    now = conf.get()
    silence = max(now.lease_seconds, 4 * now.poll_seconds, 60.0)
    moment = Now() - timedelta(seconds=silence)
    _mark_lost(Worker.objects.filter(heartbeat_at__lt=moment))


def _retry_hooks() -> None:
    recovery.retry_hooks()
