"""Can the chaos test fail? It must, once the fence is taken out of the engine.

The database's triggers look no more, a run's report needs no lease, and a guardian does
not end a slot whose lease is over. For `--without-fence` alone: nothing else imports it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Q

if TYPE_CHECKING:
    from buildqueue.states import EventKind

VARIABLE = "BUILDQUEUE_CHAOS_WITHOUT_FENCE"
BLIND_TRIGGER = """
CREATE OR REPLACE FUNCTION buildqueue_check_fence() RETURNS trigger
LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$
"""


def take_out() -> None:
    """Take the fence out of this process."""
    from buildqueue.models import BuildJob, JobEvent
    from buildqueue.queue import context, database, leases
    from buildqueue.queue.context import fencing
    from buildqueue.queue.transitions import Change, changing
    from buildqueue.worker import guardian, heartbeat

    def all_held(asked: Sequence[UUID]) -> set[UUID]:
        return set(asked)

    locked = changing._lock

    def lock(
        job_id: UUID, change: Change, fence: UUID | None, guard: Q, skip_locked: bool
    ) -> BuildJob:
        if fence is None:
            return locked(job_id, change, fence, guard, skip_locked)
        jobs = BuildJob.objects.using(database.alias()).select_for_update(no_key=True)
        return jobs.get(pk=job_id)

    def record(
        self: context.Context,
        kind: EventKind,
        title: str,
        detail: dict[str, Any] | None = None,
    ) -> None:
        JobEvent.objects.using(database.alias()).create(
            job_id=self.job.pk,
            run=self.lease_id,
            attempt=self.attempt,
            kind=kind,
            title=title,
            detail=detail or {},
            actor="worker",
        )

    def find_nothing_lost(self: heartbeat.Heartbeat, holds: object) -> None:
        """Let it go on."""

    obey = guardian.Guardian._obey

    def obey_without_end(self: guardian.Guardian, order: dict[str, object]) -> None:
        obey(self, {**order, "until": None} if "until" in order else order)

    leases.held = all_held
    fencing.HOLD = fencing.HOLD.replace("lease_id = %s", "%s::uuid IS NOT NULL")
    changing._lock = lock
    context.Context.record = record
    heartbeat.Heartbeat._find_lost = find_nothing_lost
    guardian.Guardian._obey = obey_without_end
