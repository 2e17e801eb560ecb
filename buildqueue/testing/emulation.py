"""What does a test have to do for a run that a worker's process does?

Three things: a refused statement costs only itself, as on a connection that commits each
one; what the handler prints becomes the job's log; and somebody holds the lease. If the
test dies, its transaction takes all of it away.
"""

from __future__ import annotations

import io
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import timedelta
from typing import Any, Final, TextIO

from .. import conf
from ..models import BuildJob, LogChunk
from ..queue import database, logs
from ..queue.transitions import Holder

MANAGES_SAVEPOINTS: Final = ("SAVEPOINT", "RELEASE SAVEPOINT", "ROLLBACK TO SAVEPOINT")
CHUNK: Final = 8 * 1024  # characters: whatever they are, fewer bytes than a chunk has


def holder() -> Holder:
    """Return a slot of a worker that nobody else is: this process."""
    lease = timedelta(seconds=conf.get().lease_seconds)
    return Holder(worker=uuid.uuid4(), slot=uuid.uuid4(), pid=os.getpid(), lease=lease)


@contextmanager
def as_in_a_worker(job: BuildJob) -> Iterator[None]:
    """Run a claimed job as its worker would: log kept, refused statements forgotten."""
    printed = _Copied(sys.stdout)
    try:
        with redirect_stdout(printed), redirect_stderr(printed), _statements_alone():
            yield
    finally:
        _store(job, printed.text)


@contextmanager
def _statements_alone() -> Iterator[None]:
    """Give each statement outside of the handler's own blocks a savepoint.

    In a worker such a statement is a transaction of its own. In a test's transaction one
    that is refused would leave the test nothing but its rollback.
    """
    connection = database.connection()
    outer = len(connection.atomic_blocks)
    within = False

    def alone(
        execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any
    ) -> Any:
        nonlocal within
        managed = isinstance(sql, str) and sql.startswith(MANAGES_SAVEPOINTS)
        if within or managed or len(connection.atomic_blocks) > outer:
            return execute(sql, params, many, context)
        within = True
        try:
            before = connection.savepoint()
            try:
                answer = execute(sql, params, many, context)
            except BaseException:
                connection.savepoint_rollback(before)
                raise
            connection.savepoint_commit(before)
            return answer
        finally:
            within = False

    if not outer:
        yield
        return
    with connection.execute_wrapper(alone):
        yield


class _Copied(io.TextIOBase):
    """What is printed, kept, and still printed: a debugger in a handler must work."""

    def __init__(self, shown: TextIO) -> None:
        super().__init__()
        self._shown, self._kept = shown, io.StringIO()

    @property
    def text(self) -> str:
        return self._kept.getvalue()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._kept.write(text)
        return self._shown.write(text)

    def flush(self) -> None:
        self._shown.flush()


def _store(job: BuildJob, text: str) -> None:
    clean = logs.storable(text)
    pieces = [clean[at : at + CHUNK] for at in range(0, len(clean), CHUNK)]
    logs.write(
        LogChunk(
            job_id=job.pk,
            run_id=job.lease_id,
            attempt=job.attempt,
            seq=number,
            stream=LogChunk.Stream.STDOUT,
            text=piece,
        )
        for number, piece in enumerate(pieces, start=1)
    )
