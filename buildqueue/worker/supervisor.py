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
import sys
import time
from typing import Any

from django.db import DatabaseError, InterfaceError, connections

from .. import conf
from ..models import LogChunk
from . import hierarchies, locks, registration
from .asking import Asking
from .channel import Channel, Message
from .child import HANDED_BACK, Child, SlotState
from .crew import DUTIES, Crew
from .errands import Errands
from .heartbeat import Heartbeat
from .inbox import Inbox
from .listener import Listener
from .logpump import LogPump
from .nursery import Nursery
from .options import WorkerOptions, capabilities
from .outages import Outages
from .readiness import ReadyFile
from .runs import Runs
from .stopping import Stop

logger = logging.getLogger("buildqueue.worker")

LONGEST_WAIT = 60.0
LAST_ERRANDS = 15.0  # how long a stopping worker waits for its duties to rescue


class Supervisor:
    """One worker process."""

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options
        self._stop = Stop(options.drain_seconds)
        self._inbox = Inbox()
        self._selector = selectors.DefaultSelector()
        self._outages = Outages()
        self._ready = ReadyFile(options.ready_file)
        self._recovered = False
        self._listening = False  # and it is known whether the connection is direct
        self._manned = False  # the slots were started
        self._services_at = 0.0
        self._empty_since: float | None = None  # stopping: when the last slot was gone

    # -- life ---------------------------------------------------------------------

    def run(self) -> int:
        """Work until told to stop; return the exit code."""
        self._ready.hide()
        hierarchies.settle()
        self._nursery = Nursery()
        self._nursery.start_template()
        able = capabilities()
        connections.close_all()  # the checks' own may have been cut meanwhile
        locks.steady_here()
        self._worker = registration.register(self._options, able).pk
        self._make_parts(able)
        connections.close_all()
        with self._stop.signals_caught(self._inbox.wakeup):
            self._selector.register(self._inbox, selectors.EVENT_READ)
            for thread in self._threads:
                thread.start()
            self._crew.start(DUTIES)
            self._errands.ask(do="recover")
            try:
                self._loop()
            finally:
                self._close()
        return self._stop.exit_code

    def _make_parts(self, able: list[str]) -> None:
        options, outages = self._options, self._outages
        self._pump = LogPump(outages)
        if options.show_output:
            self._pump.subscribe(_print_chunk)
        self._heartbeat = Heartbeat(self._inbox, outages)
        self._listener = Listener(self._inbox, self._worker, options, outages)
        self._threads = [*self._pump.threads, self._heartbeat, self._listener]
        order = self._order(able)
        self._crew = Crew(self._nursery, self._selector, self._pump, order)
        self._errands = Errands(lambda: self._crew.duties)
        self._asking = Asking(lambda: self._crew.slots, options.max_jobs)
        self._runs = Runs(
            crew=self._crew,
            asking=self._asking,
            errands=self._errands,
            heartbeat=self._heartbeat,
            pump=self._pump,
            nursery=self._nursery,
            stop=self._stop,
        )
        self._crew.gone = self._runs.gone

    def _order(self, able: list[str]) -> dict[str, Any]:
        now = conf.get()
        return {
            "worker": str(self._worker),
            "queues": self._options.queues,
            "capabilities": able,
            "lease_seconds": now.lease_seconds,
            "max_jobs": now.slot_max_jobs,
            "periodic": self._options.duties,
        }

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
        self._ready.hide()
        orderly = not self._crew.slots
        self._listener.stop()
        self._heartbeat.stop()
        self._crew.close()
        self._pump.stop()
        self._nursery.close()
        try:
            # With slots left, as after a fault here, others must see that it died.
            if orderly:
                registration.retire(self._worker)
        except (DatabaseError, InterfaceError) as error:
            logger.warning("the worker's row was not closed: %s", error)
        connections.close_all()

    # -- messages -----------------------------------------------------------------

    def _hear(self, name: str, value: Any) -> None:
        match name:
            case "work":
                self._asking.maybe = True
            case "direct":
                self._crew.learn(direct=value)
                self._listening = True
                self._man()
            case "revoked":
                self._heartbeat.look_now()
            case "dead":
                self._errands.ask(do="rescue_worker", worker=str(value))
            case "renewed":
                self._runs.renewed(*value)
            case "lost":
                self._runs.lost(value)

    def _read(self, child: Child, channel: Channel) -> None:
        if channel.fileno() < 0:
            return  # buried by an earlier message of the same round
        if channel is child.watch:
            child.hear(channel.receive, self._crew.hear_guardian)
        else:
            child.hear(channel.receive, self._hear_child)
        if channel.closed:
            self._crew.lost_sight(channel)
            if channel is child.watch:
                child.hear(child.control.rest, self._hear_child)
                self._crew.guardian_gone(child)

    def _hear_child(self, child: Child, message: Message) -> None:
        if "trouble" in message:
            self._hear_trouble(child, message["trouble"])
        elif "ready" in message:
            self._crew.ready(child)
            child.locked = message.get("locked", False)
            self._hear_trouble(child, None)
            if child.role == "duties":
                self._errands.ask_again(child)
            else:
                # A fresh process takes what a used one may not.
                self._asking.maybe = True
        elif "served" in message:
            self._crew.well(child)
            self._served(message["served"], message["count"])
        elif "started" in message:
            self._runs.begin(child, message)
        elif "ended" in message:
            self._runs.end(child, message)
        elif "idle" in message and child.state is not SlotState.ENDING:
            self._crew.well(child)
            child.state = SlotState.IDLE
            child.watch.send(until=None)
            if message["stale"]:
                self._crew.let_go(child)

    def _hear_trouble(self, child: Child, trouble: str | None) -> None:
        part = f"{child.role} {child.number}" if child.number else child.role
        if trouble is None:
            self._outages.well(part)
        else:
            self._outages.failed(part, trouble)

    def _served(self, request: Message, count: int) -> None:
        if not self._errands.served(request):
            return
        if count:
            self._asking.maybe = True
        if request["do"] == "recover":
            self._recovered = True
            self._man()

    def _man(self) -> None:
        """Start the slots once the past is cleared up and the connection is known."""
        if not (self._recovered and self._listening) or self._manned:
            return
        self._manned = True
        for number in range(1, self._options.slots + 1):
            if not self._stop.begun:
                self._crew.start(number)

    # -- time ---------------------------------------------------------------------

    def _patience(self) -> float:
        """Return the seconds until something is due without a message."""
        now = time.monotonic()
        moments = [
            now + LONGEST_WAIT,
            self._services_at,
            *(moment for c in self._crew.slots for moment in c.moments()),
            *self._crew.moments(),
            *self._stop.moments(),
        ]
        if self._empty_since is not None:
            moments.append(self._empty_since + LAST_ERRANDS)
        return max(0.0, min(moments) - now)

    def _tick(self) -> None:
        now = time.monotonic()
        for thread in self._threads:
            if not thread.is_alive():
                raise RuntimeError(f"the thread {thread.name} died; see above")
        self._stop_when_idle()
        self._obey_signals(now)
        self._crew.tick(now)
        for child in self._crew.slots:
            child.keep_time(now, conf.get().kill_grace_seconds)
        if now >= self._services_at:
            self._services_at = now + conf.get().rescue_seconds
            self._crew.keep_services()
        self._asking.one_asks()
        busy = sum(c.run is not None for c in self._crew.slots)
        self._listener.tell(busy=busy, draining=self._stop.begun)
        self._tell_ready()
        if self._stop.begun and self._empty_since is None and not self._crew.slots:
            self._empty_since = now

    def _tell_ready(self) -> None:
        slots = self._crew.slots
        if self._stop.begun:
            self._ready.hide()
        elif len(slots) == self._options.slots and all(c.started for c in slots):
            self._ready.show()

    # -- the end ------------------------------------------------------------------

    def _obey_signals(self, now: float) -> None:
        if self._stop.look(now):
            busy = sum(c.run is not None for c in self._crew.slots)
            logger.info("stopping: %s jobs still run; again to stop at once", busy)
        if not self._stop.begun:
            return
        self._asking.stopped = True
        self._crew.forget_restarts()
        for child in self._crew.slots:
            if child.state is SlotState.IDLE:
                self._crew.let_go(child)
            elif self._stop.over or child.state is SlotState.STARTING:
                child.end_tree(HANDED_BACK, conf.get().kill_grace_seconds)

    def _finished(self) -> bool:
        if self._empty_since is None:
            return False
        if self._errands and self._recovered:
            # What is not served in time is rescued by others: the leases end.
            return time.monotonic() >= self._empty_since + LAST_ERRANDS
        return True

    def _stop_when_idle(self) -> None:
        """Begin the stop of a burst, or of the last job, when nothing is left to do."""
        if not (self._options.burst or self._asking.enough()):
            return
        quiet = all(c.state is SlotState.IDLE for c in self._crew.slots)
        nothing = self._asking.enough() or not self._asking.maybe
        waiting = self._errands or self._crew.restarting or not self._manned
        if quiet and nothing and not waiting:
            self._stop.by_itself()


def _print_chunk(chunk: LogChunk) -> None:
    for line in chunk.text.splitlines():
        sys.stdout.write(f"{str(chunk.job_id)[:8]} | {line}\n")
    sys.stdout.flush()
