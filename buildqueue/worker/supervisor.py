"""What does a worker do, from its start to its end?

register, recover once, start slots, then one loop: wait for a message, a deadline or a
signal; poke an idle slot when there may be work; end what ran too long or lost its
lease; have the dead rescued; replace them. The first TERM drains, a second one aborts.

The supervisor runs no handler and no hook, and its loop touches no database: threads of
its own listen, renew and store logs. If it is killed, the guardians end every slot, and
other workers see its session lock gone.
"""

from __future__ import annotations

import logging
import selectors
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from types import FrameType
from typing import Any
from uuid import UUID, uuid4

from django.db import connections

from .. import conf
from ..models import LogChunk
from ..queue.outcomes import Cause
from ..states import RunOutcome
from . import registration
from .channel import Channel, Message
from .heartbeat import Heartbeat
from .inbox import Inbox
from .listener import Listener
from .logpump import LogPump
from .nursery import Nursery
from .options import WorkerOptions, capabilities
from .slots import Child, Ends, SlotState, cause_of

logger = logging.getLogger("buildqueue.worker")

REVOKED = Cause(
    outcome=RunOutcome.INTERRUPTED, code="revoked", message="its lease was taken away"
)
HANDED_BACK = Cause(
    outcome=RunOutcome.RELEASED, code="stopped", message="the worker stopped"
)
RESTART_PAUSE = 0.5  # before a child that died young is replaced; doubled up to 5 s


class Supervisor:
    """One worker process."""

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options
        self._inbox = Inbox()
        self._selector = selectors.DefaultSelector()
        self._children: dict[UUID, Child] = {}
        self._requests: dict[UUID, Message] = {}  # of duties, until served
        self._restart_at: dict[int, float] = {}  # slot number -> when
        self._pauses: dict[int, float] = {}
        self._may_be_work = True
        self._signals = 0
        self._drain_ends: float | None = None
        self._started = 0
        self._recovered = False
        self._services_at = 0.0
        self.exit_code = 0

    # -- life ---------------------------------------------------------------------

    def run(self) -> int:
        """Work until told to stop; return the exit code."""
        self._nursery = Nursery()
        self._nursery.start_template()
        worker = registration.register(self._options)
        self._worker = worker.pk
        self._pump = LogPump()
        if self._options.show_output:
            self._pump.subscribe(_print_chunk)
        self._heartbeat = Heartbeat(self._inbox)
        self._listener = Listener(
            self._inbox,
            self._worker,
            self._options.queues,
            self._options.poll_seconds,
        )
        connections.close_all()
        with self._signals_caught():
            self._selector.register(self._inbox, selectors.EVENT_READ)
            for thread in (self._pump, self._heartbeat, self._listener):
                thread.start()
            self._start("duties", 0)
            self._request({"do": "recover"})
            self._nursery.keep_services()
            try:
                self._loop()
            finally:
                self._close()
        return self.exit_code

    def _loop(self) -> None:
        while not self._finished():
            for key, _ in self._selector.select(self._patience()):
                if key.fileobj is self._inbox:
                    for name, value in self._inbox.take():
                        self._hear(name, value)
                else:
                    self._read(*key.data)
            self._nursery.reap()
            self._tick()

    def _close(self) -> None:
        self._listener.stop()
        self._heartbeat.stop()
        for child in self._children.values():
            child.watch.send(end=0)
            child.watch.close()
        self._pump.stop()
        self._nursery.close()
        registration.retire(self._worker)
        connections.close_all()

    @contextmanager
    def _signals_caught(self) -> Iterator[None]:
        caught = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.getsignal(number) for number in caught}
        for number in caught:
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        previous = signal.set_wakeup_fd(self._inbox.wakeup, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(previous)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1

    # -- messages -----------------------------------------------------------------

    def _hear(self, name: str, value: Any) -> None:
        if name == "work":
            self._may_be_work = True
        elif name == "revoked":
            self._heartbeat.look_now()
        elif name == "lost":
            for child in self._slots():
                if child.run and child.run.lease == value:
                    logger.warning("job %s: lease taken away", child.run.job)
                    child.end_tree(REVOKED, conf.get().kill_grace_seconds)

    def _read(self, child: Child, channel: Channel) -> None:
        for message in channel.receive():
            if channel is child.watch:
                self._hear_guardian(child, message)
            elif child.role == "duties":
                self._hear_duties(child, message)
            else:
                self._hear_slot(child, message)
        if channel.closed:
            self._selector.unregister(channel)
            if channel is child.watch:
                self._bury(child)

    def _hear_guardian(self, child: Child, message: Message) -> None:
        if "ended" in message:
            child.report = message
        else:
            child.guardian, child.pid = message["guardian"], message["pid"]

    def _hear_slot(self, child: Child, message: Message) -> None:
        if "ready" in message:
            self._pauses.pop(child.number, None)
            child.state = SlotState.IDLE
        elif "started" in message:
            self._begin(child, message)
        elif "ended" in message:
            self._end(child, leaving=message["leaving"])
        elif "idle" in message:
            child.state = SlotState.IDLE
            if message["used"]:
                self._let_go(child)

    def _hear_duties(self, child: Child, message: Message) -> None:
        if "ready" in message:
            child.state = SlotState.IDLE
            for request in self._requests.values():
                child.control.send(**request)
            return
        request = message["served"]
        self._requests.pop(UUID(request["id"]), None)
        if request["do"] == "recover":
            self._recovered = True
            for number in range(1, self._options.slots + 1):
                self._start("slot", number)
        elif message["count"]:
            self._may_be_work = True

    def _begin(self, child: Child, message: Message) -> None:
        run = child.begin_run(message)
        self._started += 1
        self._may_be_work = True  # where one job was there may be another
        self._heartbeat.hold(run.lease, child.incarnation)
        self._pump.begin(child.incarnation, run.job, run.lease, run.attempt)
        child.control.send(go=True)
        logger.info("%s %s started, attempt %s", run.kind, run.job, run.attempt)

    def _end(self, child: Child, *, leaving: bool) -> None:
        """The slot has reported its run, whatever came of it."""
        assert child.run is not None
        self._pump.end(child.incarnation)
        self._heartbeat.drop(child.run.lease)
        logger.info("%s %s ended", child.run.kind, child.run.job)
        child.run, child.run_ends_at = None, None
        if child.state is SlotState.ENDING:
            return
        child.state = SlotState.IDLE
        if leaving:
            self._let_go(child)
        elif not self._stopping:
            self._poke(child)

    # -- children -----------------------------------------------------------------

    def _start(self, role: str, number: int) -> None:
        now = conf.get()
        order = {
            "worker": str(self._worker),
            "queues": self._options.queues,
            "capabilities": capabilities(),
            "lease_seconds": now.lease_seconds,
            "max_jobs": now.slot_max_jobs,
            "periodic": self._options.duties,
        }
        ends = Ends.make()
        child = self._nursery.make(role, number, order, ends)
        self._children[child.incarnation] = child
        self._pump.attach(child.incarnation, ends.out, ends.err)
        for channel in (child.control, child.watch):
            self._selector.register(channel, selectors.EVENT_READ, (child, channel))

    def _let_go(self, child: Child) -> None:
        """Have an idle slot end in good order."""
        child.state = SlotState.ENDING
        child.control.send(stop=True)

    def _poke(self, child: Child) -> None:
        child.state = SlotState.CLAIMING
        child.control.send(claim=True)

    def _bury(self, child: Child) -> None:
        """The guardian is gone, and so is the tree: rescue, clean up, replace."""
        del self._children[child.incarnation]
        if child.report is None:
            self._nursery.end_strays({c.guardian or 0 for c in self._children.values()})
        cause = cause_of(child.report, child.wanted_end)
        if child.run is not None:
            self._pump.say(child.incarnation, f"[{cause.message}]")
            self._heartbeat.drop(child.run.lease)
            logger.warning("job %s: %s", child.run.job, cause.message)
        self._pump.detach(child.incarnation)
        if not child.control.closed:
            self._selector.unregister(child.control)
        child.control.close()
        child.watch.close()
        orderly = cause.exit_code == 0 and child.run is None
        if child.role == "slot" and not orderly:
            verb = "hand_back" if child.wanted_end is HANDED_BACK else "rescue"
            slot = str(child.incarnation)
            self._request({"do": verb, "slot": slot, "cause": asdict(cause)})
        self._replace(child, cause)

    def _replace(self, child: Child, cause: Cause) -> None:
        if child.role == "slot" and self._stopping:
            return
        pause = 0.0
        if child.state is SlotState.STARTING:
            pause = min(self._pauses.get(child.number, RESTART_PAUSE / 2) * 2, 5.0)
            logger.warning(
                "%s %s did not start (%s), again in %s s",
                child.role,
                child.number,
                cause.message,
                pause,
            )
        self._pauses[child.number] = pause
        self._restart_at[child.number] = time.monotonic() + pause

    def _request(self, request: Message) -> None:
        """Ask the duties for something; asked again of the next ones if they die."""
        name = uuid4()
        self._requests[name] = request | {"id": str(name)}
        for child in self._children.values():
            if child.role == "duties" and child.state is SlotState.IDLE:
                child.control.send(**self._requests[name])

    def _slots(self) -> list[Child]:
        return [c for c in self._children.values() if c.role == "slot"]

    # -- time ---------------------------------------------------------------------

    @property
    def _stopping(self) -> bool:
        return self._drain_ends is not None

    def _patience(self) -> float:
        """Return the seconds until something is due without a message."""
        moments = [
            *(c.run_ends_at for c in self._slots() if c.run_ends_at is not None),
            *self._restart_at.values(),
            self._services_at,
        ]
        if self._drain_ends is not None:
            moments.append(self._drain_ends)
        return max(0.0, min(min(moments) - time.monotonic(), 60.0))

    def _tick(self) -> None:
        now = time.monotonic()
        self._obey_signals(now)
        for number, moment in list(self._restart_at.items()):
            if now >= moment:
                del self._restart_at[number]
                self._start("slot" if number else "duties", number)
        for child in self._slots():
            if child.run_ends_at is not None and now >= child.run_ends_at:
                self._time_out(child)
        if now >= self._services_at:
            self._services_at = now + conf.get().rescue_seconds
            self._nursery.keep_services()
        self._poke_one()
        slots = self._slots()
        self._listener.beat.busy = sum(c.state is SlotState.BUSY for c in slots)
        self._listener.beat.draining = self._stopping

    def _time_out(self, child: Child) -> None:
        assert child.run is not None
        limit = child.run.time_limit
        cause = Cause(
            outcome=RunOutcome.TIMED_OUT,
            code="timed_out",
            message=f"it ran longer than its limit of {limit:g} s",
        )
        child.run_ends_at = None
        child.end_tree(cause, conf.get().kill_grace_seconds)

    def _poke_one(self) -> None:
        """One slot at a time asks for work; a hit makes the next one ask."""
        if self._stopping or self._enough():
            return
        slots = self._slots()
        idle = [c for c in slots if c.state is SlotState.IDLE]
        asking = any(c.state is SlotState.CLAIMING for c in slots)
        if not self._may_be_work or asking or not idle:
            return
        self._may_be_work = False
        self._poke(idle[0])

    def _enough(self) -> bool:
        most = self._options.max_jobs
        return most is not None and self._started >= most

    # -- the end ------------------------------------------------------------------

    def _obey_signals(self, now: float) -> None:
        if self._signals and not self._stopping:
            limit = self._options.drain_seconds
            self._drain_ends = float("inf") if limit is None else now + limit
            busy = sum(c.state is SlotState.BUSY for c in self._slots())
            logger.info("stopping: %s jobs still run; again to stop at once", busy)
        if self._signals > 1 and self.exit_code == 0:
            self.exit_code = 1
            self._drain_ends = now
        if not self._stopping:
            return
        over = self._drain_ends is not None and now >= self._drain_ends
        for child in self._slots():
            if child.state is SlotState.IDLE:
                self._let_go(child)
            elif over and child.state is not SlotState.ENDING:
                child.end_tree(HANDED_BACK, conf.get().kill_grace_seconds)
        if over:
            self._drain_ends = float("inf")

    def _finished(self) -> bool:
        if not self._recovered and not self._stopping:
            return False
        if self._options.burst or self._enough():
            self._stop_when_idle()
        return self._stopping and not self._slots() and not self._requests

    def _stop_when_idle(self) -> None:
        quiet = all(c.state is SlotState.IDLE for c in self._slots())
        nothing = self._enough() or not self._may_be_work
        waiting = self._requests or self._restart_at
        if quiet and nothing and not waiting and not self._stopping:
            self._drain_ends = float("inf")
            for child in self._slots():
                self._let_go(child)


def _print_chunk(chunk: LogChunk) -> None:
    for line in chunk.text.splitlines():
        sys.stdout.write(f"{str(chunk.job_id)[:8]} | {line}\n")
    sys.stdout.flush()
