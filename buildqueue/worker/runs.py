"""What follows when a run begins, loses its lease, is reported, or dies?

The supervisor hands these moments over. Each decides what slot, lease, log and duties are
told of it, so that they never disagree on which run is whose.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from uuid import UUID

from .. import conf
from ..queue.outcomes import Cause
from ..queue.recovery import REVOKED
from ..states import RunOutcome
from . import telling
from .asking import Asking
from .channel import Message
from .child import NO_DATABASE, Child, SlotState
from .crew import Crew
from .errands import Errands
from .heartbeat import Heartbeat
from .logpump import LogPump
from .nursery import Nursery
from .stopping import Stop

logger = logging.getLogger("buildqueue.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """The runs of a worker's slots, and whoever must know of them."""

    crew: Crew
    asking: Asking
    errands: Errands
    heartbeat: Heartbeat
    pump: LogPump
    nursery: Nursery
    stop: Stop

    def begin(self, child: Child, message: Message) -> None:
        """A slot has claimed a job and waits for its "go"."""
        run = self.crew.begin_run(child, message)
        self.asking.maybe = True  # where one job was there may be another
        self.pump.begin(child.incarnation, run.job, run.lease, run.attempt)
        if child.state is SlotState.ENDING:
            return  # its tree is being killed
        child.state = SlotState.BUSY
        if self.stop.begun:
            child.control.send(go=False)
            return
        self.nursery.start_services(message["services"])
        self.asking.started += 1
        self.heartbeat.hold(run.lease, run.claimed_at)
        logger.info("%s %s started, attempt %s", run.kind, run.job, run.attempt)
        child.go(until=run.claimed_at + conf.get().lease_seconds)

    def renewed(self, lease: UUID, until: float) -> None:
        """A lease was renewed: its guardian may let the run go on until then."""
        if child := self._holder_of(lease):
            child.watch.send(until=until)

    def lost(self, lease: UUID) -> None:
        """A lease was taken away: the run's whole tree ends."""
        if child := self._holder_of(lease):
            child.end_tree(REVOKED, conf.get().revoke_grace_seconds)

    def _holder_of(self, lease: UUID) -> Child | None:
        held = (c for c in self.crew.slots if c.run and c.run.lease == lease)
        return next(held, None)

    def end(self, child: Child, message: Message) -> None:
        """The slot has reported its run, whatever came of it."""
        assert child.run is not None
        self.pump.end(child.incarnation)
        self.heartbeat.drop(child.run.lease)
        told = (child.run.kind, child.run.job, message["how"])
        logger.log(message["level"], "%s %s %s", *told)
        child.end_run()
        if child.state is SlotState.ENDING:
            return
        child.state = SlotState.IDLE
        if message["leaving"]:
            self.crew.let_go(child)
        elif self.asking.allowed():
            self.asking.ask(child)
        else:
            child.watch.send(until=None)

    def gone(self, child: Child, cause: Cause) -> None:
        """A child's tree is gone: have what it held rescued, and replace it."""
        if child.run is not None:
            self.pump.say(child.incarnation, f"[{cause.message}]")
            self.heartbeat.drop(child.run.lease)
            told = (child.run.kind, child.run.job, telling.how_it_died(cause))
            logger.warning("%s %s %s", *told)
        orderly = cause.exit_code == 0 and child.run is None
        if child.role == "slot" and child.started and not orderly:
            self._have_rescued(child, cause)
        if child.role == "duties" or not self.stop.begun:
            self.crew.replace(child, cause)

    def _have_rescued(self, child: Child, cause: Cause) -> None:
        unstarted = cause.exit_code == NO_DATABASE and child.run is None
        back = unstarted or cause.outcome == RunOutcome.RELEASED
        self.errands.ask(
            do="hand_back" if back else "rescue",
            slot=str(child.incarnation),
            locked=child.locked,
            cause=asdict(cause),
            started=str(child.going) if child.going else None,
        )
