"""How does a test get a parent and its children, and see how they are?"""

from __future__ import annotations

from typing import Any, Literal

from buildqueue.models import BuildJob
from buildqueue.queue.outcomes import WaitForChildren
from buildqueue.states import JobStatus
from tests.factories import make_job

from .jobs import fresh
from .turns import report

Policy = Literal["fail", "collect", "ignore"]


def running_job(parent: BuildJob | None = None, **values: Any) -> BuildJob:
    """Make a job that runs, a child of this one if it is given."""
    return make_job(JobStatus.IN_PROGRESS, parent=parent, **values)


def family(children: int, policy: Policy = "fail") -> tuple[BuildJob, list[BuildJob]]:
    """Make a parent that waits for running children."""
    parent = running_job()
    made = [running_job(parent) for _ in range(children)]
    report(parent, WaitForChildren(on_failure=policy))
    return fresh(parent), made


def tree(depth: int) -> list[BuildJob]:
    """Make a line of parents that wait, each for the next; the last one runs."""
    line = [running_job()]
    for _ in range(depth):
        line.append(running_job(line[-1]))
    for waiting in line[:-1]:
        report(waiting, WaitForChildren())
    return line


def statuses_of(jobs: list[BuildJob]) -> list[str]:
    """Return the statuses that the jobs have now."""
    return [fresh(job).status for job in jobs]
