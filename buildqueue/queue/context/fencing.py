"""How does a run commit only while its lease is held?

Its rows carry the lease, and a deferred trigger looks at the job when the constraints are
checked. They are checked as the last statement of the transaction: from then on a share
lock keeps the lease in force until the commit is through, and a refusal is an ordinary
error that names what happened. Not before the last one: the lock would keep the lease
from being renewed, and a person from cancelling, for as long as the transaction is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DatabaseError

from ...exceptions import LostLeaseError
from .. import database, leases
from .parts import Run

FENCES = ", ".join(
    f"buildqueue_{table}_fence" for table in ("checkpoint", "jobprogress", "jobaction")
)

# As strong as any lock that is taken on the job behind it: two threads of a run that both
# held a share lock, and then wanted more, would wait for each other.
HOLD = """
SELECT 1 FROM buildqueue_buildjob WHERE id = %s AND lease_id = %s FOR NO KEY UPDATE
"""


@contextmanager
def fenced(run: Run) -> Iterator[None]:
    """Open a transaction that commits only while the lease is held.

    LostLeaseError when it is not: then nothing of it has happened. What is written must
    carry the lease. Inside another transaction the lease is looked at, and the end of
    that one decides.
    """
    inner = in_transaction(run)
    try:
        with database.atomic():
            yield
            if not inner:
                _check_fences()
            elif not leases.held([run.lease_id]):
                raise LostLeaseError(run.job.pk, run.lease_id)
    except DatabaseError as error:
        if database.is_fence_violation(error):
            raise LostLeaseError(run.job.pk, run.lease_id) from None
        raise


@contextmanager
def fenced_job_first(run: Run) -> Iterator[None]:
    """Do the same for a short change of what is locked after the job by others.

    Who takes the job from its run locks the job, and then what the run has under way: the
    other way round each would wait for the other. LostLeaseError before anything is done.
    """
    with fenced(run):
        with database.connection().cursor() as cursor:
            cursor.execute(HOLD, [run.job.pk, run.lease_id])
            if cursor.fetchone() is None:
                raise LostLeaseError(run.job.pk, run.lease_id)
        yield


def in_transaction(run: Run) -> bool:
    """Tell whether the run has opened a transaction, beside one it found, as in a test."""
    return database.open_blocks() > run.blocks


def _check_fences() -> None:
    with database.connection().cursor() as cursor:
        cursor.execute(f"SET CONSTRAINTS {FENCES} IMMEDIATE")
