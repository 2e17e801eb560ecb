"""How patient is the runtime? The times an operator or a test may want to change."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """All in seconds."""

    drain: float = 10.0  # for requests in flight at a switch
    grace: float = 5.0  # from TERM to KILL
    first_backoff: float = 1.0  # before the first restart, doubled with each one
    longest_backoff: float = 60.0
    steady: float = 60.0  # ran so long: the next restart is a first one again
    tick: float = 5.0  # between two looks at what should be true

    def backoff(self, failures: int) -> float:
        """Return the pause before the next restart, after so many in a row."""
        doubled = self.first_backoff * 2 ** min(failures, 30)
        return float(min(self.longest_backoff, doubled))
