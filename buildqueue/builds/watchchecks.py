"""When is a followed branch or tag looked at, and what is done about what is found?

A duty queues a check of each watch that is due and moves its due time on in the same
transaction. What the check finds is written in one transaction with what is done about
it. A check that fails is counted where its job ends, so each way to fail counts once:
the watch waits longer, and the fifth failure in a row pauses it. What a person has
paused is left alone by all of this.

Locks are taken in the order job, watch, proposal, agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import (
    DateTimeField,
    DurationField,
    ExpressionWrapper,
    F,
    QuerySet,
    Value,
)
from django.db.models.functions import Now

from ..models import AgentBuild, BuildJob, SourceWatch
from ..queue import database
from ..queue.enqueueing import enqueue
from ..queue.outcomes import SYSTEM, Actor
from ..states import JobStatus, WatchMode, WatchStatus
from . import proposals
from .watchpayload import WatchCheck

BATCH = 100
MOST_FAILURES = 5
LONGEST_BACKOFF = 60  # minutes

_INTERVAL = ExpressionWrapper(
    F("interval_minutes") * Value(timedelta(minutes=1)), output_field=DurationField()
)
NEXT_DUE = ExpressionWrapper(Now() + _INTERVAL, output_field=DateTimeField())


def backoff_minutes(failures: int) -> int:
    """Return how long a watch waits after so many failures in a row."""
    return min(LONGEST_BACKOFF, 1 << min(failures, 10))


def key(watch_id: UUID) -> str:
    """Return the key under which one check of a watch is open, and runs, at a time."""
    return f"watch:{watch_id}"


def lock(watch_id: UUID) -> SourceWatch | None:
    """Return the watch with its agent, locked until the transaction ends."""
    rows = watches().select_related("agent").filter(pk=watch_id)
    return rows.select_for_update(no_key=True, of=("self",)).first()


def active(watch_id: UUID) -> SourceWatch | None:
    """Return the watch with its agent if it is to be looked at."""
    rows = watches().select_related("agent").filter(pk=watch_id)
    return rows.filter(status=WatchStatus.ACTIVE, agent__deleted_at=None).first()


def watches() -> QuerySet[SourceWatch]:
    """Return the queryset of all watches."""
    return SourceWatch.objects.using(database.alias())


# -- asking for checks -----------------------------------------------------------------


def due(limit: int) -> QuerySet[SourceWatch]:
    """Return the watches that are due and that nobody else is just asking for."""
    rows = watches().filter(status=WatchStatus.ACTIVE, due_at__lte=Now())
    locked = rows.select_for_update(no_key=True, skip_locked=True, of=("self",))
    return locked.select_related("agent").order_by("due_at")[:limit]


def enqueue_due(limit: int = BATCH) -> int:
    """Queue a check of each watch that is due, in one transaction; return how many were.

    One whose last check is still open gets no second one. Those of deleted agents are
    paused.
    """
    with database.atomic():
        found = list(due(limit))
        live = [watch for watch in found if watch.agent.deleted_at is None]
        asked = _open_checks(live)
        for watch in live:
            if key(watch.pk) not in asked:
                _enqueue(watch, SYSTEM)
        _of(live).update(due_at=NEXT_DUE)
        _of(each for each in found if each not in live).update(
            status=WatchStatus.PAUSED, pause_reason="the agent was deleted"
        )
    return len(found)


def ask(watch: SourceWatch, *, actor: Actor) -> BuildJob:
    """Queue a check of a locked watch now; the open one when there is one."""
    asked = _open_checks([watch])
    job = asked.get(key(watch.pk)) or _enqueue(watch, actor)
    _of([watch]).update(due_at=NEXT_DUE)
    return job


def _open_checks(found: list[SourceWatch]) -> dict[str | None, BuildJob]:
    """Return the open checks by key.

    Asked before the insert, which would wait for a check that is just ending, which may
    wait for the watch.
    """
    keys = [key(watch.pk) for watch in found]
    jobs = BuildJob.objects.using(database.alias())
    held = jobs.filter(dedupe_key__in=keys, completed_at__isnull=True)
    return {job.dedupe_key: job for job in held}


def _enqueue(watch: SourceWatch, actor: Actor) -> BuildJob:
    return enqueue(
        WatchCheck(watch_id=watch.pk),
        owner_id=watch.agent.owner_id,
        serial_key=key(watch.pk),
        dedupe_key=key(watch.pk),
        on_duplicate="return",
        actor=actor,
    )


# -- what a check found ----------------------------------------------------------------


def found(watch_id: UUID, commit: str) -> dict[str, Any] | None:
    """Write where the branch or tag is, and act when it has moved; return what was done.

    Joins the caller's transaction. None when the watch is not to be looked at any more.
    A commit that the agent's newest build from a repository has is asked for already;
    that holds for the first look, too. Refused when the update is: nothing is written
    then, so that the next check finds the commit again.
    """
    with database.atomic():
        watch = lock(watch_id)
        if (
            watch is None
            or watch.status != WatchStatus.ACTIVE
            or watch.agent.deleted_at
        ):
            return None
        moved = commit != watch.last_commit
        done = _act(watch, commit) if moved else {"did": "nothing"}
        _of([watch]).update(
            last_commit=commit,
            checked_at=Now(),
            failures=0,
            last_error=None,
            due_at=NEXT_DUE,
        )
    return {"commit": commit, **done}


def _act(watch: SourceWatch, commit: str) -> dict[str, str]:
    proposals.supersede(watch, commit)
    if commit == _newest_commit(watch):
        return {"did": "nothing"}
    if watch.mode == WatchMode.UPDATE:
        caller = Actor(label="watch", id=watch.created_by)
        job = proposals.submit(watch, commit, caller=caller)
        return {"did": "update", "job_id": str(job.pk)}
    made = proposals.propose(watch, commit)
    return {"did": "propose", "proposal_id": str(made.pk)}


def _newest_commit(watch: SourceWatch) -> str | None:
    builds = AgentBuild.objects.using(database.alias()).filter(agent_id=watch.agent_id)
    known = builds.filter(commit_hash__isnull=False).order_by("-created_at")
    return known.values_list("commit_hash", flat=True).first()


# -- a check that failed ---------------------------------------------------------------


def on_final(job: BuildJob) -> None:
    """Count a failed check, in the transaction that ends its job."""
    watch_id = _watch_of(job.payload)
    if job.status == JobStatus.FAILED and watch_id is not None:
        fail(watch_id, job.error_msg or job.error_code or "the check failed")


def fail(watch_id: UUID, reason: str) -> None:
    """Have the watch wait longer; pause it at the fifth failure in a row."""
    watch = lock(watch_id)
    if watch is None or watch.status != WatchStatus.ACTIVE:
        return
    failures = watch.failures + 1
    _of([watch]).update(
        failures=failures,
        last_error=reason,
        checked_at=Now(),
        due_at=Now() + timedelta(minutes=backoff_minutes(failures)),
    )
    if failures >= MOST_FAILURES:
        why = f"{failures} checks in a row failed, the last one: {reason}"
        _of([watch]).update(status=WatchStatus.PAUSED, pause_reason=why)


def _watch_of(payload: object) -> UUID | None:
    given = payload.get("watch_id") if isinstance(payload, Mapping) else None
    try:
        return UUID(str(given))
    except ValueError:
        return None


def _of(found: Any) -> QuerySet[SourceWatch]:
    return watches().filter(pk__in=[watch.pk for watch in found])
