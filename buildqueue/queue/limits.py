"""How much may a run take? Of time, memory, processor, processes and file size.

A kind has limits, a job may have its own; what neither names is not limited. A run that
goes over one is ended with the whole of its tree, and its attempt says which it was.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

LEAST_MEMORY = 8 * 1024 * 1024
LONGEST = 1e9  # seconds; more than any clock is asked for
MOST = 2**63 - 1  # bytes, or processes; more than any kernel takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one run; None: not limited."""

    soft_time_seconds: float | None = None  # then SoftTimeLimit, in the handler
    time_seconds: float | None = None  # then TERM, a grace, KILL
    memory_bytes: int | None = None  # of the whole tree
    cpu_seconds: float | None = None  # of the whole tree
    processes: int | None = None  # and threads, at once, the job's own too
    file_bytes: int | None = None  # of any one file that it writes

    def __post_init__(self) -> None:
        """Refuse what limits nothing, and what no process could keep."""
        for name, value in asdict(self).items():
            if value is None:
                continue
            if not _is_number(value):
                raise TypeError(f"{name} must be a number, not {value!r}")
            if fault := _fault(name, value):
                raise ValueError(f"{name} {fault}")
        soft, hard = self.soft_time_seconds, self.time_seconds
        if soft is not None and hard is not None and soft >= hard:
            raise ValueError(
                f"soft_time_seconds must be below time_seconds, or it never comes: "
                f"{soft:g} and {hard:g}"
            )

    def over(self, others: Limits) -> Limits:
        """Return these limits, and the others' where these say nothing."""
        return Limits._fitting(asdict(others) | (self.stored() or {}))

    def stored(self) -> dict[str, Any] | None:
        """Return what a job's column keeps of them: None when nothing is limited."""
        given = {
            name: value for name, value in asdict(self).items() if value is not None
        }
        return given or None

    @classmethod
    def of(cls, stored: object) -> Limits:
        """Return the limits that a job's column keeps; what is none is skipped."""
        if not isinstance(stored, dict):
            return cls()
        names = {field.name for field in fields(cls)}
        known: dict[str, Any] = {
            name: value
            for name, value in stored.items()
            if name in names and _is_number(value) and not _fault(name, value)
        }
        return cls._fitting(known)

    @classmethod
    def _fitting(cls, values: dict[str, Any]) -> Limits:
        """Return limits of two sources; one that another makes pointless is left out."""
        soft, hard = values.get("soft_time_seconds"), values.get("time_seconds")
        if soft is not None and hard is not None and soft >= hard:
            values = values | {"soft_time_seconds": None}
        return cls(**values)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _fault(name: str, value: float) -> str | None:
    """Return what is wrong with a limit: in words for who has set it."""
    seconds = name.endswith("_seconds")
    most = LONGEST if seconds else MOST
    if not value > 0:
        return f"must be above 0, not {value!r}"
    if value > most:  # told without it: it may have more digits than can be shown
        return f"must be at most {most:g}"
    if not seconds and value < 1:
        return f"must be 1 at least, not {value!r}"
    if name == "memory_bytes" and value < LEAST_MEMORY:
        return (
            f"is in bytes, and no process gets along with less than {LEAST_MEMORY}, "
            f"not {value!r}"
        )
    return None


UNLIMITED = Limits()
