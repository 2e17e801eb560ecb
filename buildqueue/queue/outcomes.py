"""What may a handler answer? A value; only the runner turns it into a transition."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ..states import ErrorClass
from .questions import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The work is done; `result` is small and JSON."""

    result: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        """Refuse a result that is not JSON here, where the handler's author sees it."""
        json.dumps(self.result, allow_nan=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """It failed and may work later; counts against the allowance."""

    reason: str
    code: str = "failed"
    delay_seconds: float | None = None  # None: the kind's backoff
    traceback: str | None = None
    blame: ErrorClass = ErrorClass.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """It failed, and trying again would not help."""

    reason: str
    code: str = "failed"
    traceback: str | None = None
    blame: ErrorClass = ErrorClass.PERMANENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Snooze:
    """Not now: run it again after the delay; counts against nothing."""

    delay_seconds: float
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """The work has become pointless: the job ends cancelled."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForInput:
    """A person must answer; the next run finds the answer in `ctx.answers`.

    `fields` are what is asked for, by name; the answer must fit them.
    """

    question: str
    fields: dict[str, Field]

    def __post_init__(self) -> None:
        """Refuse a question that nobody could answer."""
        if not self.question.strip() or not self.fields:
            raise ValueError("a question needs its words and at least one field")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForApproval:
    """A person must decide on the actions that the run has proposed."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForChildren:
    """All children must end; then the handler runs again.

    `on_failure` says what a child that does not end done means: `fail` ends this job at
    once and cancels the other children; `collect` wakes it when all have ended, and
    `ctx.children()` tells how; `ignore` the same, for a handler that does not look.
    """

    on_failure: Literal["fail", "collect", "ignore"] = "fail"


Wait: TypeAlias = WaitForInput | WaitForApproval | WaitForChildren
Outcome: TypeAlias = Done | Retry | Fail | Snooze | Cancel | Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who did it, kept as words so that the timeline outlives the user."""

    label: str
    id: str = ""


WORKER = Actor(label="worker")
SYSTEM = Actor(label="system")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """How a run's process ended, as its supervisor saw it."""

    outcome: str  # of states.RunOutcome: crashed, timed_out, lost
    code: str
    message: str
    exit_code: int | None = None
    exit_signal: int | None = None
    peak_memory_bytes: int | None = None
    cpu_seconds: float | None = None
    detail: dict[str, Any] = field(default_factory=dict)
