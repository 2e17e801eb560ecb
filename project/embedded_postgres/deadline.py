"""How long may the caller still be kept waiting? One limit for all steps of a call."""

from __future__ import annotations

import time
from dataclasses import dataclass

PAUSE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    at: float  # on the monotonic clock

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(at=time.monotonic() + seconds)

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self.at

    @property
    def left(self) -> float:
        """Seconds, never fewer than one: what a program needs to fail by itself."""
        return max(1.0, self.at - time.monotonic())

    def pause(self) -> None:
        time.sleep(PAUSE)
