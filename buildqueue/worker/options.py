"""What may be said to a worker when it is started?"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.module_loading import import_string

from .. import conf


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """One worker's choices; what is None comes from the settings."""

    queues: tuple[str, ...] = ()  # empty: all of them
    slots: int = 2
    poll_seconds: float | None = None
    max_jobs: int | None = None
    burst: bool = False
    duties: bool = True
    drain_seconds: float | None = 110.0
    show_output: bool = False

    def faults(self) -> list[str]:
        """Return what is wrong with the choices, a sentence each."""
        wrong = {
            "--slots must be 1 or more.": self.slots < 1,
            "--max-jobs must be 1 or more.": (
                self.max_jobs is not None and self.max_jobs < 1
            ),
            "--poll-interval must be above 0.": (
                self.poll_seconds is not None and not self.poll_seconds > 0
            ),
            "--drain must be 0 or more, or none.": (
                self.drain_seconds is not None and not self.drain_seconds >= 0
            ),
        }
        return [sentence for sentence, holds in wrong.items() if holds]


def capabilities() -> list[str]:
    """Return what this host can do that others may not, as the settings tell."""
    found: list[str] = []
    for path in conf.get().capabilities:
        found += import_string(path)()
    return sorted(set(found))
