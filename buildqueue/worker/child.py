"""What does the supervisor know of one child: a slot, or the one for duties?

The process itself is in `slot` and in `duties`.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from uuid import UUID, uuid4

from ..queue.outcomes import Cause
from ..states import RunOutcome
from .channel import Channel, Message

REVOKED = Cause(
    outcome=RunOutcome.INTERRUPTED, code="revoked", message="its lease was taken away"
)
HANDED_BACK = Cause(
    outcome=RunOutcome.RELEASED, code="stopped", message="the worker stopped"
)

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
    guardian: int | None = None
    pid: int | None = None
    run: CurrentRun | None = None
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
            claimed_at=message["claimed_at"],
        )
        self.run = run
        limit = run.time_limit
        self.run_ends_at = None if limit is None else time.monotonic() + limit
        return run

    def end_tree(self, cause: Cause, grace: float) -> None:
        """Have the guardian end the process and all that it started."""
        if self.wanted_end is not None:
            return
        self.state, self.wanted_end = SlotState.ENDING, cause
        self.run_ends_at = None
        self.gone_by = time.monotonic() + grace + SLOW_GUARDIAN
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
    elif told.get("overran"):
        outcome, code = RunOutcome.LOST, "lease_over"
        message = "its lease ran out before it was renewed"
    return Cause(outcome=outcome, code=code, message=message, **facts)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
