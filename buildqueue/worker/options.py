"""What may be said to a worker when it is started?"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

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
    ready_file: Path | None = None

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
            "--ready-file must be in a folder that can be written to.": (
                self.ready_file is not None and not _can_be_made(self.ready_file)
            ),
        }
        return [sentence for sentence, holds in wrong.items() if holds]


def _can_be_made(path: Path) -> bool:
    return not path.is_dir() and os.access(path.parent, os.W_OK | os.X_OK)


def capabilities() -> list[str]:
    """Return what this host can do that others may not, as the settings tell."""
    found: list[str] = []
    for path in conf.get().capabilities:
        found += import_string(path)()
    return sorted(set(found))
