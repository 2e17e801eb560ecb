"""How does a test have its jobs run? Here, now, by the code that a worker runs.

Claims, leases, fences, outcomes, retries, final hooks, children and wakes are the real
ones. What a worker does beside a run, or after a commit, and a test's transaction never
gets to, is done between the runs: leases that are over, waits that are over, children of
a parent that did not end done. A process of its own, limits, signals and notices to other
processes are what a test in one process cannot have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from ..models import BuildJob, JobRun
from ..queue import claiming, database, recovery
from ..queue.claiming import Scope
from ..states import JobStatus, RunOutcome
from ..worker import runner
from . import clocks, emulation

SHOWN: Final = 5  # kinds that StillBusy names


class StillBusy(AssertionError):
    """So many runs, and something is due still."""


class JobFailed(AssertionError):
    """A run failed, and the test did not want that."""

    def __init__(self, job: BuildJob, run: JobRun) -> None:
        self.job, self.run = job, run
        told = f"attempt {run.attempt} of {job}: {run.error_code}: {run.error_msg}"
        super().__init__(f"{told}\n\n{run.traceback or ''}".rstrip())


def drain(
    *,
    limit: int = 1000,
    queues: Sequence[str] = (),
    until_empty: bool = True,
    advance: float | timedelta = 0,
    raise_errors: bool = False,
) -> list[BuildJob]:
    """Run what is due, and return the jobs that ran, as they are then, in that order.

    Jobs enqueued meanwhile, children and woken parents are run as well; with
    `until_empty=False` one round only: what is due now, as if there were a slot for each.
    Scheduled ones run when they are due: `advance` moves the frozen clock on by so much,
    stopping at each due time on its way. A job may run often, and is returned once.

    StillBusy after `limit` runs. A job that fails is told by its row; with `raise_errors`
    JobFailed is raised after the first run that failed, with the traceback's text.
    """
    until = _moment_after(advance)
    ran: Counter[UUID] = Counter()
    kinds: Counter[str] = Counter()
    for job in _claimed(queues, until_empty, limit, until):
        if kinds.total() == limit:
            raise StillBusy(_busy(limit, kinds))
        ran[job.pk] += 1
        kinds[job.kind] += 1
        with emulation.as_in_a_worker(job):
            runner.run(job)
        if raise_errors:
            _raise_failure(job)
    found = BuildJob.objects.using(database.alias()).in_bulk(list(ran))
    return [found[job_id] for job_id in ran if job_id in found]


def _claimed(
    queues: Sequence[str], until_empty: bool, limit: int, until: datetime | None
) -> Iterator[BuildJob]:
    """Yield claimed jobs, each when the one before has run, until none is due."""
    at_once = 1 if until_empty else limit
    while True:
        _do_duties()
        scope = Scope(queues=tuple(queues), capabilities=_all_that_are_required())
        taken = claiming.claim(scope, emulation.holder(), limit=at_once)
        yield from taken
        if not until_empty:
            return
        if not taken and (until is None or not _go_on_to_the_next(until)):
            return


def _do_duties() -> None:
    """Do what follows a commit in a worker, or is found by its duties."""
    recovery.rescue_expired()
    while recovery.repair_pairs():
        pass  # what was cancelled may have children, and who waited for it may end


def _all_that_are_required() -> tuple[str, ...]:
    """Return every capability: this process stands for all the workers there are."""
    jobs = BuildJob.objects.using(database.alias()).open()
    named = jobs.filter(requires__isnull=False).values_list("requires", flat=True)
    return tuple(name for name in named.distinct() if name)


def _moment_after(advance: float | timedelta) -> datetime | None:
    span = advance if isinstance(advance, timedelta) else timedelta(seconds=advance)
    if not span:
        return None
    if not clocks.is_frozen():
        raise RuntimeError("advance moves a frozen clock: use `with frozen_clock():`")
    return clocks.Clock().now + span


def _go_on_to_the_next(until: datetime) -> bool:
    """Move the clock to the next due time, or to its end; tell whether it has moved."""
    clock = clocks.Clock()
    if clock.now >= until:
        return False
    jobs = BuildJob.objects.using(database.alias())
    later = jobs.filter(status=JobStatus.SCHEDULED, due_at__gt=clock.now)
    due = later.order_by("due_at").values_list("due_at", flat=True).first()
    clock.stand_at(min(due or until, until))
    return True


def _raise_failure(job: BuildJob) -> None:
    runs = JobRun.objects.using(database.alias())
    own = runs.filter(job_id=job.pk, attempt=job.attempt)
    failed = own.filter(outcome=RunOutcome.FAILED).first()
    if failed is not None:
        raise JobFailed(job, failed)


def _busy(limit: int, kinds: Counter[str]) -> str:
    most = ", ".join(
        f"{kind} {count} times" for kind, count in kinds.most_common(SHOWN)
    )
    return (
        f"{limit} runs, and another job is due: {most}. Does a handler enqueue its like, "
        f"or snooze for no time? Raise `limit` if it is as it should be."
    )
