"""How does a job get into the queue? By an INSERT in the caller's transaction.

Rolled back with it, visible with its commit; the wake-up follows the commit. The
payload is parsed by the kind's model first, so a job that cannot run is refused here,
and so is what the table could not hold: the caller's transaction stays usable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError
from django.db.models import CharField
from django.db.models.functions import Now
from pydantic import BaseModel

from .. import conf, signals, states
from ..exceptions import DuplicateJob, InvalidOption
from ..models import BuildJob
from ..states import JobStatus
from . import database, handlers, logs, transitions, wakeups
from .outcomes import Actor

RANGES: Final = {"priority": (-100, 100), "max_attempts": (1, 2**31 - 1)}
TEXTS: Final = ("queue", "owner_id", "serial_key", "dedupe_key", "requires")


def enqueue(
    payload: BaseModel | Mapping[str, Any],
    *,
    owner_id: str = "",
    queue: str | None = None,
    priority: int = 0,
    due_at: datetime | None = None,
    max_attempts: int | None = None,
    serial_key: str | None = None,
    dedupe_key: str | None = None,
    requires: str | None = None,
    agent_id: UUID | None = None,
    connector_id: UUID | None = None,
    actor: Actor | None = None,
) -> BuildJob:
    """Insert a job of the payload's kind and return it.

    UnknownKind or InvalidPayload when no worker could run it; InvalidOption when one of
    the others is out of its range; DuplicateJob when an open job holds the dedupe key.
    The caller's transaction stays usable.
    """
    stored = (
        payload.model_dump(mode="json")
        if isinstance(payload, BaseModel)
        else dict(payload)
    )
    known = handlers.get(str(stored.get("kind", "")))
    known.parse(stored)
    if max_attempts is None:
        max_attempts = known.max_attempts or conf.get().max_attempts
    job = BuildJob(
        payload=stored,
        queue=known.queue if queue is None else queue,
        priority=priority,
        status=JobStatus.SCHEDULED if due_at else JobStatus.PENDING,
        due_at=due_at or Now(),
        owner_id=owner_id,
        max_attempts=max_attempts,
        serial_key=serial_key,
        dedupe_key=dedupe_key,
        requires=requires,
        agent_id=agent_id,
        connector_id=connector_id,
    )
    if faults := dict(_faults(job)):
        raise InvalidOption(faults)
    with database.atomic():
        _insert(job)
        change = transitions.Change(
            transition=states.ENQUEUE,
            target=JobStatus(job.status),
            actor=actor or Actor(label="owner" if owner_id else "host", id=owner_id),
        )
        transitions.record(job, states.ENQUEUE.name, change=change)
    if job.status == JobStatus.SCHEDULED:
        wakeups.tell_later()
    else:
        wakeups.wake(job.queue)
    signals.job_enqueued_after_commit(job, using=database.alias())
    return job


def _faults(job: BuildJob) -> Iterator[tuple[str, str]]:
    """Yield the fields that the table would refuse, and what to do about each."""
    for name, (least, most) in RANGES.items():
        number = getattr(job, name)
        if number not in range(least, most + 1):
            yield name, f"must be a whole number from {least} to {most}, not {number!r}"
    for name in TEXTS:
        if (given := getattr(job, name)) is None:
            continue
        text, field = str(given), BuildJob._meta.get_field(name)
        assert isinstance(field, CharField)
        assert field.max_length is not None
        if not text and name != "owner_id":
            yield name, "must not be empty; leave it out instead"
        elif len(text) > field.max_length:
            most = field.max_length
            yield name, f"must have {most} characters at most, not {len(text)}"
        elif text != logs.storable(text):
            yield name, "must not contain NUL or half a surrogate pair"


def _insert(job: BuildJob) -> None:
    try:
        with database.atomic():
            job.save(using=database.alias(), force_insert=True)
    except IntegrityError as error:
        if job.dedupe_key and "build_jobs_one_open_per_key" in str(error):
            jobs = BuildJob.objects.using(database.alias())
            held = jobs.filter(dedupe_key=job.dedupe_key, completed_at__isnull=True)
            found = held.values_list("pk", flat=True).first()
            raise DuplicateJob(job.dedupe_key, found) from None
        raise
    job.refresh_from_db(using=database.alias())
