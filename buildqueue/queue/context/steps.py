"""How is a part of a job done once, however often its process dies?

    with ctx.step("charge") as step:
        if not step.done:
            Ledger.objects.create(order=payload.order)
            step.result = {"amount": 40}

The body's transaction and the step's checkpoint commit together, while the lease is held,
or not at all. A later attempt finds the checkpoint: `step.done` is true, and `step.result`
is what was stored. If the process dies before the commit, the step has not happened; after
it, it has. A connection that is lost in the commit leaves the question open: then the
checkpoint is looked for, and the step is never run again in place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError

from ...exceptions import LostLeaseError, PermanentError
from ...models import Checkpoint
from ...states import EventKind
from .. import database, logs
from .fencing import fenced, in_transaction
from .parts import Run

FINISHED = """
INSERT INTO buildqueue_checkpoint (job_id, step, lease_id, attempt, result)
VALUES (%s, %s, %s, %s, %s::jsonb)
ON CONFLICT (job_id, step) DO UPDATE
SET lease_id = EXCLUDED.lease_id, attempt = EXCLUDED.attempt,
    result = EXCLUDED.result, finished_at = clock_timestamp()
"""
LONGEST_NAME = 200


@dataclass(slots=True)
class Step:
    """A named part of a job, while it is run."""

    name: str
    done: bool = False  # an earlier attempt, or call, has finished it
    result: Any = None  # JSON; kept with the checkpoint


class Steps:
    """The steps of a run."""

    @contextmanager
    def step(
        self: Run, name: str, *, transaction: bool = True, again: bool = False
    ) -> Iterator[Step]:
        """Run a named part; skip its body yourself when `step.done`.

        `transaction=False` is for long work outside the database: only the checkpoint is
        written, at the end, so that no transaction is open meanwhile. `again` runs it in
        every attempt.
        """
        step = Step(_fitting(name))
        found = None if again else _finished(self, step.name)
        if found is not None:
            step.done, step.result = True, found.result
            yield step
            self.tell(EventKind.STEP_SKIPPED, step.name, {"attempt": found.attempt})
            return
        _refuse_nesting(self, step.name)
        self.log(f"==> {step.name}")
        self.tell(EventKind.STEP_STARTED, step.name)
        try:
            if transaction:
                with _committed(self, step):
                    yield step
            else:
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

        It runs in a step's transaction; its result is JSON.
        """
        with Steps.step(self, name) as step:
            if not step.done:
                step.result = function(*args)
        return step.result


def _tell_failed(run: Run, name: str, error: BaseException) -> None:
    try:
        run.tell(EventKind.STEP_FAILED, name, {"error": type(error).__name__})
    except (DatabaseError, InterfaceError) as untold:
        # What the handler raised tells more than this, and decides what becomes of it.
        error.add_note(f"not told in the timeline: {untold}")


def _fitting(name: str) -> str:
    if not name or len(name) > LONGEST_NAME or name != logs.storable(name):
        raise ValueError(f"a step needs a name of 1 to {LONGEST_NAME} characters")
    return name


def _finished(run: Run, name: str) -> Checkpoint | None:
    checkpoints = Checkpoint.objects.using(database.alias())
    return checkpoints.filter(job_id=run.job.pk, step=name).first()


@contextmanager
def _committed(run: Run, step: Step) -> Iterator[None]:
    """Commit the body and the checkpoint in one transaction."""
    finished = False
    try:
        with fenced(run):
            yield
            write_checkpoint(run, step)
            run.record(EventKind.STEP_FINISHED, step.name)
            finished = True
    except (OperationalError, InterfaceError):
        if not finished or not _committed_after_all(run, step.name):
            raise


def write_checkpoint(run: Run, step: Step) -> None:
    """Store that the step is finished, in the open transaction.

    From here on its result is what is stored: this attempt goes on with what a later one
    would find.
    """
    result = json.dumps(logs.storable_json(step.result), allow_nan=False)
    step.result = json.loads(result)
    named = (run.job.pk, step.name, run.lease_id, run.attempt, result)
    with database.connection().cursor() as cursor:
        cursor.execute(FINISHED, named)


def _refuse_nesting(run: Run, name: str) -> None:
    if in_transaction(run):
        raise PermanentError(
            f"step {name!r} begins inside a transaction, which could be rolled back "
            f"when the step is told as finished: begin it outside",
            code="step_in_transaction",
        )


def _committed_after_all(run: Run, name: str) -> bool:
    """Tell whether the commit came through whose answer was lost.

    If it is still under way, the fence decides it: this attempt fails now and gives its
    lease up, and the next one sees the checkpoint or runs the step.
    """
    connection = database.connection()
    connection.close()
    found = _finished(run, name)
    return found is not None and found.lease_id == run.lease_id
