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
from functools import partial
from typing import Any, Final, TextIO

from django.db.backends.base.base import BaseDatabaseWrapper

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
        with redirect_stdout(printed), redirect_stderr(printed), _as_on_its_own():
            yield
    finally:
        _store(job, printed.text)


@contextmanager
def _as_on_its_own() -> Iterator[None]:
    """Have statements and blocks stand or fall alone in a test's transaction."""
    connection = database.connection()
    if not connection.in_atomic_block:
        yield
        return
    alone = _Alone(connection)
    with connection.execute_wrapper(alone):
        yield
    alone.settle()


class _Alone:
    """Gives each statement, and each outermost block of a handler, a savepoint.

    In a worker they are transactions. In a test's transaction one that is refused would
    leave the test nothing but its own rollback.
    """

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection = connection
        self._blocks = len(connection.atomic_blocks)
        self._savepoints = len(connection.savepoint_ids)
        self._outermost: object = None  # block of the handler, once it has a statement
        self._block: str | None = None  # its savepoint, if it took none itself
        self._own = False  # a statement of this object is executed

    def __call__(
        self,
        execute: Callable[..., Any],
        sql: Any,
        params: Any,
        many: bool,
        context: Any,
    ) -> Any:
        """Execute a statement of the handler, or of what calls it."""
        run = partial(execute, sql, params, many, context)
        if self._own:
            return run()
        if len(self._connection.atomic_blocks) > self._blocks:
            self._begin_block()
            return run()
        self.settle()
        managed = isinstance(sql, str) and sql.startswith(MANAGES_SAVEPOINTS)
        return run() if managed else self._alone(run)

    def settle(self) -> None:
        """Keep what the last block did, or drop it if that failed."""
        failed, self._connection.needs_rollback = self._connection.needs_rollback, False
        block, self._block, self._outermost = self._block, None, None
        if block is not None:
            self._end(block, failed)

    def _begin_block(self) -> None:
        outermost = self._connection.atomic_blocks[self._blocks]
        if outermost is self._outermost:
            return
        self.settle()
        self._outermost = outermost
        if self._connection.savepoint_ids[self._savepoints] is None:
            self._block = self._savepoint()

    def _alone(self, run: Callable[[], Any]) -> Any:
        before = self._savepoint()
        try:
            answer = run()
        except BaseException:
            self._end(before, True)
            raise
        self._end(before, False)
        return answer

    def _savepoint(self) -> str:
        with self._as_own():
            return str(self._connection.savepoint())

    def _end(self, savepoint: str, failed: bool) -> None:
        with self._as_own():
            if failed:
                self._connection.savepoint_rollback(savepoint)
            self._connection.savepoint_commit(savepoint)

    @contextmanager
    def _as_own(self) -> Iterator[None]:
        self._own = True
        try:
            yield
        finally:
            self._own = False


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
    assert job.lease_id is not None
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
