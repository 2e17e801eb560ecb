"""How much may a run take? Of time, memory, processor, processes and file size.

A kind has limits, a job may have its own; what neither names is not limited. A run that
goes over one is ended with the whole of its tree, and its attempt says which it was.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one run; None: not limited."""

    soft_time_seconds: float | None = (
        None  # then SoftTimeLimit is raised in the handler
    )
    time_seconds: float | None = None  # then TERM, a grace, KILL
    memory_bytes: int | None = None  # of the whole tree
    cpu_seconds: float | None = None  # of the whole tree
    processes: int | None = None  # and threads, at once, the job's own too
    file_bytes: int | None = None  # of any one file that it writes

    def __post_init__(self) -> None:
        """Refuse what limits nothing."""
        for name, value in asdict(self).items():
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be above 0, not {value!r}")

    def over(self, others: Limits) -> Limits:
        """Return these limits, and the others' where these say nothing."""
        own = {name: value for name, value in asdict(self).items() if value is not None}
        return Limits(**asdict(others) | own)

    def stored(self) -> dict[str, Any] | None:
        """Return what a job's column keeps of them: None when nothing is limited."""
        given = {
            name: value for name, value in asdict(self).items() if value is not None
        }
        return given or None

    @classmethod
    def of(cls, stored: object) -> Limits:
        """Return the limits that a job's column keeps; what is none of ours is skipped."""
        if not isinstance(stored, dict):
            return cls()
        names = {field.name for field in fields(cls)}
        known: dict[str, Any] = {
            name: value
            for name, value in stored.items()
            if name in names and isinstance(value, int | float) and value > 0
        }
        return cls(**known)


UNLIMITED = Limits()
