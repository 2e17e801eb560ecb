"""What may a handler answer? A value; only the runner turns it into a transition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ..states import ErrorClass
from . import questions, storing
from .questions import Field

LONGEST_DELAY = 10 * 365.25 * 86_400  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The work is done; `result` is small and JSON."""

    result: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        """Refuse a result that is not JSON here, where the handler's author sees it."""
        if self.result is not None:
            kept = storing.mapping(self.result, "a result")
            object.__setattr__(self, "result", kept)  # the value is frozen


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """It failed and may work later; counts against the allowance."""

    reason: str
    code: str = "failed"
    delay_seconds: float | None = None  # None: the kind's backoff
    traceback: str | None = None
    blame: ErrorClass = ErrorClass.UNKNOWN

    def __post_init__(self) -> None:
        """Refuse what cannot be stored here, where the handler's author sees it."""
        _check_texts(reason=self.reason, code=self.code)
        if self.delay_seconds is not None:
            _check_delay(self.delay_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """It failed, and trying again would not help."""

    reason: str
    code: str = "failed"
    traceback: str | None = None
    blame: ErrorClass = ErrorClass.PERMANENT

    def __post_init__(self) -> None:
        """Refuse what is no text."""
        _check_texts(reason=self.reason, code=self.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snooze:
    """Not now: run it again after the delay; counts against nothing."""

    delay_seconds: float
    reason: str = ""

    def __post_init__(self) -> None:
        """Refuse a moment that never comes."""
        _check_delay(self.delay_seconds)
        _check_texts(reason=self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """The work has become pointless: the job ends cancelled."""

    reason: str

    def __post_init__(self) -> None:
        """Refuse what is no text."""
        _check_texts(reason=self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForInput:
    """A person must answer; the next run finds the answer in `ctx.answers`.

    `fields` are what is asked for, by name; the answer must fit them.
    """

    question: str
    fields: dict[str, Field]

    def __post_init__(self) -> None:
        """Refuse a question that nobody could answer."""
        if not isinstance(self.question, str):
            raise TypeError(f"a question is a text, not {self.question!r}")
        if not isinstance(self.fields, dict) or not all(
            isinstance(name, str) and isinstance(field, Field)
            for name, field in self.fields.items()
        ):
            raise TypeError("the fields of a question are a dict of Field, by name")
        if not self.question.strip() or not self.fields:
            raise ValueError("a question needs its words and at least one field")
        storing.document(questions.stored(self.question, self.fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForApproval:
    """A person must decide on the actions that the run has proposed."""

    reason: str = ""

    def __post_init__(self) -> None:
        """Refuse what is no text."""
        _check_texts(reason=self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForChildren:
    """All children must end; then the handler runs again.

    `on_failure` says what a child that does not end done means: `fail` ends this job at
    once and cancels the other children; `collect` wakes it when all have ended, and
    `ctx.children()` tells how; `ignore` the same, for a handler that does not look.
    """

    on_failure: Literal["fail", "collect", "ignore"] = "fail"

    def __post_init__(self) -> None:
        """Refuse what would be taken for something else."""
        if self.on_failure not in ("fail", "collect", "ignore"):
            raise ValueError(
                f"on_failure must be 'fail', 'collect' or 'ignore', "
                f"not {self.on_failure!r}"
            )


Wait: TypeAlias = WaitForInput | WaitForApproval | WaitForChildren
Outcome: TypeAlias = Done | Retry | Fail | Snooze | Cancel | Wait


def _check_texts(**given: object) -> None:
    for name, value in given.items():
        if not isinstance(value, str):
            raise TypeError(f"{name} must be text, not {type(value).__name__}")


def _check_delay(seconds: object) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        kind = type(seconds).__name__
        raise TypeError(f"delay_seconds must be a number, not {kind}")
    if not 0 <= seconds <= LONGEST_DELAY:
        raise ValueError("delay_seconds must be from 0 to ten years")


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
