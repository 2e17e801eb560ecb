"""Which children does a supervisor have, and what becomes of one that ends?

A child is known from the moment it is ordered until its guardian is gone. Then nothing
of its tree is left, what it held is handed to the duties, and another one takes its
number: at once, or after a growing pause when it could not do its work.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

from .. import conf
from ..queue.outcomes import Cause
from .cgroups import Group
from .channel import Channel, Message
from .child import NO_DATABASE, Child, CurrentRun, Ends, SlotState, cause_of
from .logpump import LogPump
from .nursery import Nursery
from .outages import FIRST_PAUSE, LONGEST_PAUSE, jittered

logger = logging.getLogger("buildqueue.worker")

STRAY_SECONDS = 0.02  # between two looks for what a killed guardian left
DUTIES = 0  # their number; slots count from 1

Gone = Callable[[Child, Cause], None]


class Crew:
    """The slots and the duties of one worker."""

    def __init__(
        self,
        nursery: Nursery,
        selector: selectors.BaseSelector,
        pump: LogPump,
        order: dict[str, Any],
    ) -> None:
        self._nursery, self._selector, self._pump = nursery, selector, pump
        self._order = order
        self._children: dict[UUID, Child] = {}
        self._unclear: list[Child] = []  # their guardian died: who is left?
        self._restart_at: dict[int, float] = {}  # number -> when
        self._pauses: dict[int, float] = {}
        self._hindered = False
        self.gone: Gone = lambda child, cause: None

    @property
    def slots(self) -> list[Child]:
        """Return the slots whose tree may still live."""
        return [c for c in self._children.values() if c.role == "slot"]

    @property
    def duties(self) -> Child | None:
        """Return the child that rescues, when it is ready."""
        for child in self._children.values():
            if child.role == "duties" and child.state is SlotState.IDLE:
                return child
        return None

    @property
    def restarting(self) -> bool:
        """Whether a child is to be started that is not there."""
        return bool(self._restart_at)

    def start(self, number: int) -> None:
        """Have a child made: a slot, or the duties."""
        role = "slot" if number else "duties"
        ends = Ends.make()
        child = self._nursery.make(role, number, self._order, ends)
        self._children[child.incarnation] = child
        own = role == "duties"
        self._pump.attach(child.incarnation, ends.out, ends.err, own=own)
        for channel in (child.control, child.watch):
            self._selector.register(channel, selectors.EVENT_READ, (child, channel))

    def learn(self, **facts: Any) -> None:
        """Have the children that are made from now on told this, too."""
        self._order = self._order | facts

    def ready(self, child: Child) -> None:
        """Note that a child has come up."""
        child.started = True
        if child.state is SlotState.STARTING:
            child.state = SlotState.IDLE

    def well(self, child: Child) -> None:
        """Note that a child does what it is for: the next one may come at once."""
        self._pauses.pop(child.number, None)

    def begin_run(self, child: Child, message: Message) -> CurrentRun:
        """Take in what a slot tells of a run that waits for its "go"."""
        self.well(child)
        if message["hindrance"] and not self._hindered:
            self._hindered = True
            why = message["hindrance"]
            logger.warning("limits are measured, not set: no control group (%s)", why)
        return child.begin_run(message)

    def let_go(self, child: Child) -> None:
        """Have an idle slot end in good order."""
        child.state = SlotState.ENDING
        child.control.send(stop=True)

    def lost_sight(self, channel: Channel) -> None:
        """Listen no more to a channel whose other end is gone."""
        with contextlib.suppress(KeyError):
            self._selector.unregister(channel)

    def guardian_gone(self, child: Child) -> None:
        """The guardian has ended: with a report nothing is left, else look for it."""
        if child.report is None:
            self._unclear.append(child)
        else:
            self._bury(child)

    def hear_guardian(self, child: Child, message: Message) -> None:
        """Take in what a guardian tells: the process it made, or its end."""
        if "ended" in message:
            child.report = message
        else:
            child.guardian, child.pid = message["guardian"], message["pid"]

    def _bury(self, child: Child) -> None:
        del self._children[child.incarnation]
        cause = cause_of(child.report, child.wanted_end)
        self.gone(child, cause)
        if child.run is not None and child.run.watched is not None:
            # Left by a guardian that was killed, or was never told.
            Group.of(child.run.watched).remove()
        self._pump.detach(child.incarnation)
        for channel in (child.control, child.watch):
            self.lost_sight(channel)
            channel.close()

    def replace(self, child: Child, cause: Cause) -> None:
        """Have another one take its number."""
        pause = 0.0
        unwell = not child.started or cause.exit_code == NO_DATABASE
        if unwell or child.role == "duties":
            pause = min(self._pauses.get(child.number, FIRST_PAUSE), LONGEST_PAUSE)
            self._pauses[child.number] = pause * 2
            pause = jittered(pause)
            if cause.exit_code != NO_DATABASE:  # that is told once for all of them
                told = (child.role, child.number, cause.message, pause)
                logger.warning("%s %s: %s; another one in %.1f s", *told)
        self._restart_at[child.number] = time.monotonic() + pause

    def forget_restarts(self) -> None:
        """Start no more slots: the worker stops."""
        for number in [n for n in self._restart_at if n != DUTIES]:
            del self._restart_at[number]

    def keep_services(self) -> None:
        """Have the host's services run, and know what they leave to us."""
        guardians = [child.guardian for child in self._children.values()]
        if not self._unclear and all(guardians):
            self._nursery.know_adopted({pid for pid in guardians if pid})
        self._nursery.start_services(conf.get().host_services)

    # -- time ---------------------------------------------------------------------

    def moments(self) -> list[float]:
        """Return when something is due without a message."""
        found = list(self._restart_at.values())
        found += [c.gone_by for c in self._children.values() if c.gone_by is not None]
        if self._unclear:
            found.append(time.monotonic() + STRAY_SECONDS)
        return found

    def tick(self, now: float) -> None:
        """Do what is due."""
        for number, moment in list(self._restart_at.items()):
            if now >= moment:
                del self._restart_at[number]
                self.start(number)
        self._clear_up()
        for child in self._children.values():
            if child.gone_by is not None and now >= child.gone_by:
                self._kill_guardian(child)

    def _clear_up(self) -> None:
        """End what killed guardians left; bury their slots when nothing is there."""
        # A guardian that has not told its pid yet would be taken for a stray.
        alive = [c for c in self._children.values() if c not in self._unclear]
        if not self._unclear or not all(c.guardian for c in alive):
            return
        if self._nursery.end_strays({c.guardian for c in alive if c.guardian}):
            return
        unclear, self._unclear = self._unclear, []
        for child in unclear:
            self._bury(child)

    @staticmethod
    def _kill_guardian(child: Child) -> None:
        """It does not end what it was told to end: then its slot dies with it."""
        child.gone_by = None
        if child.guardian is not None:
            logger.warning("guardian %s hangs, killing it", child.guardian)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.guardian, signal.SIGKILL)

    def close(self) -> None:
        """End whoever is left."""
        for child in self._children.values():
            child.watch.send(end=0)
            child.watch.close()
