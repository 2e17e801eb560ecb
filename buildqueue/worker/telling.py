"""What does a worker's own output say of a run's end? A few words, on one line.

The words go to whoever watches the worker; the job's row and timeline have the whole
story. What a handler wrote is cut, and made one printable line: it must not forge
another one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from .. import states
from ..models import BuildJob
from ..queue.outcomes import Cause
from ..queue.transitions import Change
from ..states import JobStatus, RunOutcome

LONGEST_REASON = 200
FORMAT = "%(asctime)s %(levelname)s %(message)s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended, in words, and how loudly to say so."""

    how: str
    level: int = logging.INFO


TAKEN_AWAY = Ending(how="stopped: its lease was taken away", level=logging.WARNING)


def ending_of(job: BuildJob, change: Change) -> Ending:
    """Return how a run ended whose change was applied; `job` is as it is then."""
    if job.status == JobStatus.FAILED:
        # Not by the change: a hook that misses the result makes "done" fail.
        return _warning("failed", job.error_msg or job.error_code or "")
    if change.transition is states.RETRY_LATER:
        delay = change.detail["delay_seconds"]
        return _warning(f"tried again in {delay:g} s", change.reason)
    if change.transition is states.HAND_BACK:
        return Ending(how="handed back")
    if change.transition is states.SNOOZE:
        return Ending(how="snoozed")
    return Ending(how=job.status)


def how_it_died(cause: Cause) -> str:
    """Return how a run ended that could not report it."""
    if cause.outcome == RunOutcome.RELEASED:
        return _with_reason("handed back", cause.message)
    return _with_reason(cause.outcome.replace("_", " "), cause.message)


def log_to_stderr() -> None:
    """Have warnings and news of buildqueue printed, where the host logs nothing."""
    if not logging.getLogger("buildqueue").hasHandlers():
        logging.basicConfig(level=logging.INFO, format=FORMAT)


def _warning(what: str, reason: str) -> Ending:
    return Ending(how=_with_reason(what, reason), level=logging.WARNING)


def _with_reason(what: str, reason: str) -> str:
    printable = "".join(c if c.isprintable() else " " for c in reason)
    line = " ".join(printable.split())
    if len(line) > LONGEST_REASON:
        line = line[: LONGEST_REASON - 1] + "…"
    return f"{what}: {line}" if line else what
