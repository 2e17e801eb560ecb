"""How is a part of a job done once, however often its process dies?

    with ctx.step("charge") as step:
        if not step.done:
            Ledger.objects.create(order=payload.order)
            step.result = {"amount": 40}

The body's transaction and the step's checkpoint commit together, while the lease is held,
or not at all. A later attempt finds the checkpoint: `step.done` is true, and `step.result`
is what was stored. If the process dies before the commit, the step has not happened; after
it, it has. A connection that is lost in the commit leaves the question open: then the
checkpoint of this very execution is looked for, and the step is never run again in place.

Of two executions of one step, in threads or one behind a commit whose answer was lost, one
commits. The other is rolled back and raises `step_repeated`: its body has seen rows that
do not exist, so the run ends rather than going on with them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID, uuid4

from django.db import DatabaseError, InterfaceError, OperationalError
from django.db import transaction as db_transaction

from ...exceptions import (
    LostLeaseError,
    NotStorable,
    PermanentError,
    StepTimeLimit,
)
from ...models import Checkpoint
from ...states import EventKind
from .. import database, logmarks, storing
from .fencing import fenced, in_transaction
from .parts import Run

# It waits for another execution of the step whose commit is under way, and then does
# nothing. Not an error: that would leave nothing usable of a transaction around it.
FINISHED = """
INSERT INTO buildqueue_checkpoint (job_id, step, lease_id, attempt, token, result)
VALUES (%s, %s, %s, %s, %s, %s::jsonb)
ON CONFLICT (job_id, step) DO NOTHING
"""
FINISHED_AGAIN = FINISHED.replace(
    "DO NOTHING",
    "DO UPDATE SET lease_id = EXCLUDED.lease_id, attempt = EXCLUDED.attempt, "
    "token = EXCLUDED.token, result = EXCLUDED.result, finished_at = clock_timestamp()",
)
LONGEST_NAME: Final = 200
CHILD: Final = "child:"  # begins the names of the steps that `spawn` makes


@dataclass(slots=True)
class Step:
    """A named part of a job, while it is run."""

    name: str
    done: bool = False  # an earlier attempt, or call, has finished it
    result: Any = None  # JSON; kept with the checkpoint
    again: bool = False  # it replaces the checkpoint of an earlier execution
    token: UUID = field(default_factory=uuid4)  # of this execution


class StepRepeated(PermanentError):
    """Another execution of the step has committed; this one is rolled back."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"step {name!r} was run twice at once, and counts once: use each name in "
            f"one thread, and do not repeat a step whose connection was lost",
            code="step_repeated",
        )


class Steps:
    """The steps of a run."""

    @contextmanager
    def step(
        self: Run,
        name: str,
        *,
        transaction: bool = True,
        again: bool = False,
        valid: Callable[[Any], bool] | None = None,
        seconds: float | None = None,
    ) -> Iterator[Step]:
        """Run a named part, whose body asks `step.done` and does nothing when it is.

        Python cannot skip the body, so the transaction of a finished step is rolled back:
        one that does not ask writes nothing a second time.

        `transaction=False` is for long work outside the database: only the checkpoint is
        written, at the end, so that no transaction is open meanwhile. `again` runs it in
        every attempt; so does `valid` when it says of the stored result that what it
        names is not there any more. When it takes longer than `seconds`, StepTimeLimit
        is raised in it.
        """
        step = Step(_fitting(name), again=again)
        found = None if again else _finished(self, step.name)
        if found is not None and valid is not None and not valid(found.result):
            found, step.again = None, True
        if found is not None:
            step.done, step.result = True, found.result
            with _rolled_back() if transaction else nullcontext():
                yield step
            step.result = found.result
            self.tell(EventKind.STEP_SKIPPED, step.name, {"attempt": found.attempt})
            return
        _refuse_nesting(self, step.name)
        if self.session is not None:  # a slot's: what it prints is cut by steps
            logmarks.write(self.lease_id, step.name)
        self.log(f"==> {step.name}")
        self.tell(EventKind.STEP_STARTED, step.name)
        try:
            if transaction:
                with _committed(self, step), _timed(self, step.name, seconds):
                    yield step
            else:
                with _timed(self, step.name, seconds):
                    yield step
                with _committed(self, step):
                    pass
        except LostLeaseError:
            raise
        except BaseException as error:
            _tell_failed(self, step.name, error)
            raise

    def once(self: Run, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Return what the function returned when it went well, in whatever attempt.

        It runs in a step's transaction; its result is JSON. Of two threads that call it,
        both get the result of the one that commits: nothing else leaves the function.
        """
        try:
            with Steps.step(self, name) as step:
                if not step.done:
                    step.result = function(*args)
        except StepRepeated as repeated:
            found = _finished(self, name)
            if repeated.name != name or found is None:
                raise
            return found.result
        return step.result


@contextmanager
def _rolled_back() -> Iterator[None]:
    with database.atomic():
        yield
        db_transaction.set_rollback(True, using=database.alias())


@contextmanager
def _timed(run: Run, name: str, seconds: float | None) -> Iterator[None]:
    """Raise StepTimeLimit when the body takes longer: in it, or at its end."""
    if seconds is None:
        yield
        return
    late, begun = StepTimeLimit(name, seconds), time.monotonic()
    with run.alarm(seconds, late) if run.alarm else nullcontext():
        yield
    if time.monotonic() - begun >= seconds:
        raise late


def _tell_failed(run: Run, name: str, error: BaseException) -> None:
    try:
        run.tell(EventKind.STEP_FAILED, name, {"error": type(error).__name__})
    except (DatabaseError, InterfaceError) as untold:
        # What the handler raised tells more than this, and decides what becomes of it.
        error.add_note(f"not told in the timeline: {untold}")


def _fitting(name: str) -> str:
    if storing.name(name, LONGEST_NAME, "a step's name").startswith(CHILD):
        raise NotStorable(
            f"a step's name must not begin with {CHILD!r}: ctx.spawn makes those"
        )
    return name


def _finished(run: Run, name: str) -> Checkpoint | None:
    checkpoints = Checkpoint.objects.using(database.alias())
    return checkpoints.filter(job_id=run.job.pk, step=name).first()


@contextmanager
def _committed(run: Run, step: Step) -> Iterator[None]:
    """Commit the body and the checkpoint in one transaction."""
    finished, session = False, None
    try:
        with fenced(run):
            session = database.connection().connection
            yield
            write_checkpoint(run, step)
            run.record(EventKind.STEP_FINISHED, step.name)
            finished = True
    except (OperationalError, InterfaceError):
        if not finished or _answers(session) or not _is_stored(run, step):
            raise


def write_checkpoint(run: Run, step: Step) -> None:
    """Store that the step is finished, in the open transaction.

    From here on its result is what is stored: this attempt goes on with what a later one
    would find. NotStorable when it cannot be, StepRepeated when another execution was
    faster: then the step has not happened.
    """
    step.result = storing.document(step.result)
    result = json.dumps(step.result)
    named = (run.job.pk, step.name, run.lease_id, run.attempt, step.token, result)
    with database.connection().cursor() as cursor:
        cursor.execute(FINISHED_AGAIN if step.again else FINISHED, named)
        if cursor.rowcount != 1:
            run.check_lease()  # whose place another run has taken is told that
            raise StepRepeated(step.name)


def _refuse_nesting(run: Run, name: str) -> None:
    if in_transaction(run):
        raise PermanentError(
            f"step {name!r} begins inside a transaction, which could be rolled back "
            f"when the step is told as finished: begin it outside",
            code="step_in_transaction",
        )


def _answers(session: object) -> bool:
    """Tell whether the server still answers on this session: then it has said no."""
    connection = database.connection()  # Django may have made a new one meanwhile
    return connection.connection is session and connection.is_usable()


def _is_stored(run: Run, step: Step) -> bool:
    """Tell whether the commit came through whose answer was lost.

    If it is still under way, the fence decides it: this attempt fails now and gives its
    lease up, and the next one sees the checkpoint or runs the step.
    """
    database.connection().close()
    found = _finished(run, step.name)
    return found is not None and found.token == step.token
