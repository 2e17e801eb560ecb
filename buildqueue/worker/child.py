"""What does the supervisor know of one child: a slot, or the one for duties?

The process itself is in `slot` and in `duties`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from uuid import UUID, uuid4

from ..queue.outcomes import Cause
from ..states import RunOutcome
from .channel import Channel, Message

logger = logging.getLogger("buildqueue.worker")

HANDED_BACK = Cause(
    outcome=RunOutcome.RELEASED, code="stopped", message="the worker stopped"
)

GARBLED = Cause(
    outcome=RunOutcome.CRASHED,
    code="garbled",
    message="its process told the worker what makes no sense",
)

# What a message raises that lacks something, or has it out of range.
SENSELESS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)

CROSSED = {
    "out_of_memory": "it took more memory than it may, or than there is",
    "cpu_limit": "it used more processor time than it may",
    "process_limit": "it had more processes and threads at once than it may",
}

NO_DATABASE = 75  # EX_TEMPFAIL: a slot that cannot claim leaves; nothing was started
SLOW_GUARDIAN = 10.0  # after the grace: then the guardian itself is killed


class SlotState(Enum):
    """Where a child is between two messages."""

    STARTING = "starting"
    IDLE = "idle"
    CLAIMING = "claiming"
    BUSY = "busy"
    ENDING = "ending"  # told to stop, or its tree is being killed: never left again


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentRun:
    """The run that a slot has told of."""

    lease: UUID
    job: UUID
    kind: str
    attempt: int
    time_limit: float | None
    soft_limit: float | None
    watched: Message | None  # what its guardian measures
    claimed_at: float  # before the claim was sent, by the clock that counts sleep


@dataclass(slots=True, kw_only=True)
class Child:
    """One incarnation: a new one for each process."""

    role: str  # slot | duties
    number: int
    control: Channel
    watch: Channel
    incarnation: UUID = field(default_factory=uuid4)
    state: SlotState = SlotState.STARTING
    started: bool = False  # it was ready once
    locked: bool = False  # a session lock shows that it cannot commit any more
    guardian: int | None = None
    pid: int | None = None
    run: CurrentRun | None = None
    going: UUID | None = None  # the run that was told to go: its death counts
    soft_at: float | None = None  # the soft time limit, monotonic
    run_ends_at: float | None = None  # the time limit, monotonic
    gone_by: float | None = None  # told to end: when its guardian counts as hung
    wanted_end: Cause | None = None  # why the supervisor ends it, if it does
    report: Message | None = None  # the guardian's

    def begin_run(self, message: Message) -> CurrentRun:
        """Note what the slot tells of the run that waits for its "go"."""
        run = CurrentRun(
            lease=UUID(message["started"]),
            job=UUID(message["job"]),
            kind=message["kind"],
            attempt=message["attempt"],
            time_limit=message["time_limit"],
            soft_limit=message["soft_limit"],
            watched=message["watched"],
            claimed_at=message["claimed_at"],
        )
        self.run, now = run, time.monotonic()
        self.soft_at = None if run.soft_limit is None else now + run.soft_limit
        self.run_ends_at = None if run.time_limit is None else now + run.time_limit
        return run

    def hear(
        self,
        receive: Callable[[], list[Message]],
        take_in: Callable[[Child, Message], None],
    ) -> None:
        """Take in what it tells; what makes no sense ends it, and never the worker."""
        message: Message | None = None
        try:
            for message in receive():
                take_in(self, message)
        except SENSELESS:
            logger.exception("%s %s makes no sense", self.role, self.number)
            self._charge(message)
            self.end_tree(GARBLED, 0)

    def _charge(self, message: Message | None) -> None:
        """Count its end for the run that it tells of, or that would be told of again."""
        if isinstance(message, dict) and self.going is None:
            with contextlib.suppress(ValueError):
                self.going = UUID(str(message.get("started")))

    def go(self, until: float) -> None:
        """Have the run begin under a lease; it has not if the slot is dead by now."""
        assert self.run is not None
        # First the guardian: what kills the slot in its first moment is measured, too.
        self.watch.send(until=until, watched=self.run.watched)
        if self.control.send(go=True):
            self.going = self.run.lease

    def end_run(self) -> None:
        """Note that the run was reported."""
        self.run = self.going = self.soft_at = self.run_ends_at = None

    def moments(self) -> list[float]:
        """Return when a limit in time is reached."""
        return [m for m in (self.soft_at, self.run_ends_at) if m is not None]

    def keep_time(self, now: float, grace: float) -> None:
        """Hold the run to its limits in time."""
        if self.soft_at is not None and now >= self.soft_at:
            self.soft_at = None
            self.watch.send(soft=True)
        if self.run_ends_at is not None and now >= self.run_ends_at:
            assert self.run is not None
            message = f"it ran longer than its limit of {self.run.time_limit:g} s"
            outcome = RunOutcome.TIMED_OUT
            cause = Cause(outcome=outcome, code="timed_out", message=message)
            self.end_tree(cause, grace)

    def end_tree(self, cause: Cause, grace: float) -> None:
        """Have the guardian end the process and all that it started.

        A later order does not change why, and may only shorten the grace: who is being
        stopped for its time is gone at once when a person takes its job.
        """
        gone_by = time.monotonic() + grace + SLOW_GUARDIAN
        told = self.wanted_end is not None
        if told and (self.gone_by is None or gone_by >= self.gone_by):
            return
        self.state, self.gone_by = SlotState.ENDING, gone_by
        self.wanted_end = self.wanted_end or cause
        self.soft_at = self.run_ends_at = None
        self.watch.send(end=grace)


@dataclass(frozen=True, slots=True)
class Ends:
    """The ends of a new child's connections: ours, and those it is given."""

    control: Channel
    watch: Channel
    out: int
    err: int
    given: tuple[int, ...]  # watch, control, out, err

    @classmethod
    def make(cls) -> Ends:
        """Make two socket pairs and two pipes."""
        control, its_control = socket.socketpair()
        watch, its_watch = socket.socketpair()
        out, its_out = os.pipe()
        err, its_err = os.pipe()
        given = (its_watch.detach(), its_control.detach(), its_out, its_err)
        return cls(Channel(control), Channel(watch), out, err, given)


def cause_of(report: Message | None, wanted: Cause | None) -> Cause:
    """Return how a process ended, from its guardian's report or its guardian's death."""
    told = report or {}
    status: int | None = told.get("ended")
    facts: dict[str, Any] = {
        "peak_memory_bytes": told.get("peak_memory_bytes"),
        "cpu_seconds": told.get("cpu_seconds"),
        "exit_code": None,
        "exit_signal": None,
    }
    outcome = RunOutcome.CRASHED
    if status is None:
        code, message = "guardian_died", "its guardian process was killed"
    elif os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        facts["exit_signal"] = number
        code, message = "killed_by_signal", f"its process was ended by {_name(number)}"
    else:
        number = os.WEXITSTATUS(status)
        facts["exit_code"] = number
        code, message = "exited", f"its process exited with code {number}"
    if wanted is not None:
        outcome, code, message = RunOutcome(wanted.outcome), wanted.code, wanted.message
    elif crossed := told.get("crossed"):
        code, message = crossed, CROSSED[crossed]
    elif told.get("overran"):
        outcome, code = RunOutcome.LOST, "lease_over"
        message = "its lease ran out before it was renewed"
    return Cause(outcome=outcome, code=code, message=message, **facts)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
