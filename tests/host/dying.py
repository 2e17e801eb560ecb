"""How does a job's process die exactly where a test wants it to?

An app for a worker's INSTALLED_APPS. A test orders a job's death by a file in the folder
that the environment names: in which phase, at its begin or at its end before anything
is stored of it. What is sent is a real SIGKILL, to the process itself; one that is to
wait there goes on once the order is withdrawn, unless the test has killed it.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from django.apps import AppConfig

FOLDER = "BUILDQUEUE_TEST_DEATHS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """Where a job's process dies."""

    phase: str
    point: Literal["begin", "end"]
    attempts: int = 1  # the first so many
    waits: bool = False  # there, until it is killed or the order is withdrawn


def order(folder: Path, job_id: UUID, death: Death) -> None:
    """Have the job's process die; to be told before the job can be claimed."""
    (folder / str(job_id)).write_text(json.dumps(asdict(death)))


def withdraw(folder: Path, job_id: UUID) -> None:
    """Let a process that waits to die go on."""
    (folder / str(job_id)).unlink()


def ordered(job_id: UUID) -> Death | None:
    """Return how the job is to die, if it is."""
    try:
        told = (Path(os.environ[FOLDER]) / str(job_id)).read_text()
    except FileNotFoundError:
        return None
    return Death(**json.loads(told))


class DyingConfig(AppConfig):
    """Has the phases of executors end their process as it was ordered."""

    name = "tests.host.dying"
    label = "dying"

    def ready(self) -> None:
        """Put itself around every phase."""
        from buildqueue.executors.base import Run

        Run.phase = _dying(Run.phase)  # type: ignore[method-assign]


def _dying(usual: Callable[..., Any]) -> Callable[..., Any]:
    @contextmanager
    def phase(run: Any, name: str, **options: Any) -> Iterator[Any]:
        with usual(run, name, **options) as step:
            if not step.done:
                _die_at(run, name, "begin")
            yield step
            if not step.done:
                _die_at(run, name, "end")

    return phase


def _die_at(run: Any, phase: str, point: str) -> None:
    death = ordered(run.ctx.job.pk)
    if death is None or run.ctx.attempt > death.attempts:
        return
    if (death.phase, death.point) != (phase, point):
        return
    while death.waits:
        threading.Event().wait(0.02)
        if ordered(run.ctx.job.pk) is None:
            return
    os.kill(os.getpid(), signal.SIGKILL)
