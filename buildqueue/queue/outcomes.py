"""What may a handler answer? A value; only the runner turns it into a transition."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, TypeAlias


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """It failed, and trying again would not help."""

    reason: str
    code: str = "failed"
    traceback: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snooze:
    """Not now: run it again after the delay; counts against nothing."""

    delay_seconds: float
    reason: str = ""


Outcome: TypeAlias = Done | Retry | Fail | Snooze


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
