"""How is a test a run itself, with the context that a slot gives its handler?

The context has a session of its own beside the usual connection, as in a worker, so what
is told from inside a step is seen at once. `elsewhere` is anybody else meanwhile.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest import mock

from django.db import connection, connections

from buildqueue.models import BuildJob
from buildqueue.queue import recovery, verbs
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import Actor
from buildqueue.states import JobStatus
from buildqueue.worker import locks, runner
from tests.factories import make_job

from .jobs import fresh
from .turns import claim

T = TypeVar("T")
PATIENCE = 60.0  # more than anything takes; what waits for a lock for so long is stuck


@contextmanager
def run_of(job: BuildJob | None = None) -> Iterator[Context]:
    """Be the run of a job that is in progress (a new one, when none is given)."""
    job = job or make_job(JobStatus.IN_PROGRESS)
    assert job.lease_id is not None
    session = locks.own_connection()
    try:
        yield Context(job=job, lease_id=job.lease_id, session=session)
    finally:
        session.close()


def claimed(job: BuildJob) -> BuildJob:
    """Claim a pending job, as a slot does, and return it with its new lease."""
    found = claim()
    assert found is not None
    assert found.pk == job.pk
    return found


def next_attempt(ctx: Context) -> BuildJob:
    """Take the job from its run and claim it again; return it with its new lease."""
    verbs.release(ctx.job.pk, actor=Actor(label="test"), reason="the next attempt")
    recovery.end_own_run(ctx.lease_id)
    return claimed(ctx.job)


def run_again(job: BuildJob, function: Callable[[Context], object]) -> BuildJob:
    """Run a pending job by this handler, as a slot does, and return it as it is then."""
    handler = mock.Mock(parse=lambda payload: payload)
    handler.function = lambda ctx, payload: (function(ctx), None)[1]
    with mock.patch("buildqueue.queue.handlers.get", return_value=handler):
        runner.run(claimed(job))
    return fresh(job)


def let_lease_end(job: BuildJob) -> None:
    """Let the time pass until the job's lease is over, by the database's clock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE buildqueue_buildjob SET lease_until = now() - interval '1 second' "
            "WHERE id = %s",
            [job.pk],
        )


def taken_over(job: BuildJob) -> uuid.UUID:
    """Give a job another lease behind its run's back, in plain SQL; return the lease."""
    lease = uuid.uuid4()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE buildqueue_buildjob SET lease_id = %s WHERE id = %s",
            [lease, job.pk],
        )
    return lease


def elsewhere(act: Callable[..., T], *args: Any, **named: Any) -> T:
    """Return what the function returns on another connection; it may not wait long."""

    def run() -> T:
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SET lock_timeout = '{PATIENCE:g}s'")
            return act(*args, **named)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as threads:
        return threads.submit(run).result()
