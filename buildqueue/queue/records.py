"""How does the host share a job's state document with the job's runs?

Reading, and compare-and-swap: a patch is merged only if the document is still as the
caller saw it, under the row's lock, so that many writers lose nothing of each other. The
job's own row is never touched. If the process dies before the commit nothing is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from ..exceptions import InvalidOption, NotStorable, Refused
from ..models import BuildJob, JobProgress
from ..models.expressions import ClockTimestamp
from . import database, documents, logs, storing

ENSURE = """
INSERT INTO buildqueue_jobprogress (job_id)
SELECT id FROM buildqueue_buildjob WHERE id = %s AND (%s::uuid IS NULL OR lease_id = %s)
ON CONFLICT DO NOTHING
"""


def progress_of(job_id: UUID) -> JobProgress | None:
    """Return what a job remembers, if anything."""
    return JobProgress.objects.using(database.alias()).filter(pk=job_id).first()


def state_of(job_id: UUID) -> dict[str, Any]:
    """Return a job's state document; empty when there is none."""
    found = progress_of(job_id)
    return dict(found.state) if found and isinstance(found.state, Mapping) else {}


def ensure(job_id: UUID, *, lease: UUID | None = None) -> None:
    """Make the job's row of progress, unless it has one; for a run only with its lease."""
    if progress_of(job_id) is None:
        with database.connection().cursor() as cursor:
            cursor.execute(ENSURE, [job_id, lease, lease])


def locked(job_id: UUID) -> JobProgress:
    """Return the job's row of progress, locked until the transaction ends."""
    rows = JobProgress.objects.using(database.alias()).select_for_update(no_key=True)
    if found := rows.filter(pk=job_id).first():
        return found
    ensure(job_id)
    return rows.get(pk=job_id)


def compare_and_swap(
    job_id: UUID,
    expected: Mapping[str, Any],
    patch: Mapping[str, Any],
    *,
    owner_id: str | None = None,
) -> dict[str, Any] | None:
    """Merge the patch into a job's state if it is as expected; return the new state.

    None: it is otherwise, and nothing was changed. `expected` names what matters, by
    `documents.fits`; `{}` fits everything. With `owner_id` only a job of that owner is
    found. Refused with `not_found` when there is no such job, InvalidOption when one of
    the documents cannot be stored, or the state would become too large.
    """
    wanted, change = _taken(expected, "expected"), _taken(patch, "patch")
    with database.atomic():
        if not _is_there(job_id, owner_id):
            raise Refused("not_found", "There is no such job.", status=404)
        row = locked(job_id)
        if not documents.fits(row.state, wanted):
            return None
        row.state = _taken(documents.merged(row.state, change), "patch")
        row.lease_id, row.updated_at = None, ClockTimestamp()
        row.save(
            using=database.alias(), update_fields=["state", "lease_id", "updated_at"]
        )
    return dict(row.state)


def _taken(document: object, name: str) -> dict[str, Any]:
    try:
        return storing.mapping(document, name)
    except NotStorable as why:
        raise InvalidOption({name: f"cannot be stored: {why}"}) from None


def _is_there(job_id: UUID, owner_id: str | None) -> bool:
    known = storing.identifier(job_id)
    if known is None:
        return False
    found = BuildJob.objects.using(database.alias()).filter(pk=known)
    if owner_id is not None:
        found = found.filter(owner_id=logs.storable(str(owner_id)))
    return found.exists()
