"""Who may write a running job? The holder of its lease, until a moment.

A lease is a UUID made by the claim and an end on the database's clock. Every write of a
worker carries it in the WHERE (the fence), so a holder that lost it writes nothing:

    worker A   claim(lease 1) ──── frozen ───────────────────── finish(lease 1): 0 rows
    database        │ lease 1 ends ┊ rescue: pending
    worker B        │              ┊ claim(lease 2) ── finish(lease 2): 1 row
                    └ renewed while A's supervisor lives, whatever the handler does

Renewal belongs to the supervisor and names the leases of the runs in its living slots,
never "all of my worker" or "all of this slot": a job whose slot died, or which its slot
has left behind, must not be kept alive by the others. It skips locked rows instead of
waiting, and tells which leases it has renewed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from django.db.models.functions import Now

from ..models import BuildJob
from ..models.expressions import ClockTimestamp
from ..states import JobStatus
from . import database

RENEW = """
UPDATE buildqueue_buildjob AS job
SET lease_until = clock_timestamp() + make_interval(secs => %s)
FROM (
    SELECT id FROM buildqueue_buildjob
    WHERE lease_id = ANY(%s) AND lease_until > clock_timestamp()
    FOR NO KEY UPDATE SKIP LOCKED
) AS held
WHERE job.id = held.id
RETURNING job.lease_id
"""


def renew(leases: Sequence[UUID], length: timedelta) -> set[UUID]:
    """Renew those of the leases that are still in force; return them."""
    with database.connection().cursor() as cursor:
        cursor.execute(RENEW, [length.total_seconds(), list(leases)])
        return {row[0] for row in cursor.fetchall()}


def held(leases: Sequence[UUID]) -> set[UUID]:
    """Return those of the leases that are still in force."""
    jobs = BuildJob.objects.using(database.alias())
    live = jobs.filter(lease_id__in=leases, lease_until__gt=ClockTimestamp())
    return {lease for lease in live.values_list("lease_id", flat=True) if lease}


def over(limit: int = 1000) -> list[BuildJob]:
    """Return jobs whose lease is over, by the database's clock, the longest first."""
    jobs = BuildJob.objects.using(database.alias())
    ended = jobs.filter(status=JobStatus.IN_PROGRESS, lease_until__lt=Now())
    return list(ended.order_by("lease_until")[:limit])
