"""How do a moment, an id and the tries look in a terminal? The same in every list. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from django.utils import timezone

from ..models import BuildJob

MOMENT: Final = 25  # how wide a moment is
WIDEST_NAME: Final = 14


def moment(at: datetime | None) -> str:
    """Return a moment in the project's time zone, with its offset."""
    if at is None:
        return "-"
    return timezone.localtime(at).isoformat(sep=" ", timespec="seconds")


def short(identifier: object) -> str:
    """Return the first letters of an id, by which the command takes it, too."""
    return str(identifier)[:8] if identifier else "-"


def cut(name: str | None) -> str:
    """Return a name that fits a column."""
    name = name or "-"
    return name if len(name) <= WIDEST_NAME else f"{name[: WIDEST_NAME - 1]}…"


def tries(job: BuildJob) -> str:
    """Return the tries used up over those allowed; not every claim uses one up."""
    return f"{job.failures + job.crashes}/{job.max_attempts}"


def all_tries(job: BuildJob) -> str:
    """Return the tries with what they are made of."""
    times = "once" if job.attempt == 1 else f"{job.attempt} times"
    parts = f"failures {job.failures}, crashes {job.crashes}; claimed {times}"
    return f"{tries(job)} ({parts})"
