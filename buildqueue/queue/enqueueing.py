"""How does a job get into the queue? By an INSERT in the caller's transaction.

Rolled back with it, visible with its commit; the wake-up follows the commit. The
payload is parsed by the kind's model first, so a job that cannot run is refused here,
and so is what the table could not hold: the caller's transaction stays usable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, get_args
from uuid import UUID

from django.db import IntegrityError
from django.db.models import CharField, Q
from django.db.models.functions import Now
from pydantic import BaseModel

from .. import conf, signals, states
from ..exceptions import (
    DuplicateJob,
    InvalidOption,
    InvalidPayload,
    InvalidTransition,
    NotStorable,
    Refused,
)
from ..models import BuildJob
from ..models.jobs import MOMENTS, MOST
from ..states import UNCLAIMED, JobStatus
from . import database, handlers, logs, storing, transitions, wakeups
from .limits import Limits
from .outcomes import Actor

RANGES: Final = {"priority": (-100, 100), "max_attempts": (1, MOST)}
TEXTS: Final = ("queue", "owner_id", "serial_key", "dedupe_key", "requires")
KINDS: Final = {
    "agent_id": UUID,
    "connector_id": UUID,
    "parent": BuildJob,
    "limits": Limits,
}
NEVER_RUN: Final = Q(status__in=sorted(UNCLAIMED), attempt=0)
TRIES: Final = 5  # holders of a dedupe key that end while one looks
OnDuplicate: TypeAlias = Literal["reject", "return", "replace"]


def enqueue(
    payload: BaseModel | Mapping[str, Any],
    *,
    owner_id: str = "",
    queue: str | None = None,
    priority: int = 0,
    due_at: datetime | None = None,
    max_attempts: int | None = None,
    limits: Limits | None = None,
    serial_key: str | None = None,
    dedupe_key: str | None = None,
    on_duplicate: OnDuplicate = "reject",
    requires: str | None = None,
    agent_id: UUID | None = None,
    connector_id: UUID | None = None,
    parent: BuildJob | None = None,
    actor: Actor | None = None,
) -> BuildJob:
    """Insert a job of the payload's kind and return it.

    UnknownKind or InvalidPayload when no worker could run it; InvalidOption when one of
    the others is out of its range. While an open job holds the dedupe key: `reject`
    raises DuplicateJob, `return` returns that job, `replace` cancels it if it has never
    run, else raises. Refused with `child_depth` when the parent has too many
    ancestors. The caller's transaction stays usable.
    """
    stored = _stored(payload)
    known = handlers.get(str(stored.get("kind", "")))
    known.parse(stored)
    if max_attempts is None:
        max_attempts = known.max_attempts or conf.get().max_attempts
    given = {
        "queue": known.queue if queue is None else queue,
        "priority": priority,
        "owner_id": owner_id,
        "max_attempts": max_attempts,
        "serial_key": serial_key,
        "dedupe_key": dedupe_key,
        "requires": requires,
        "agent_id": agent_id,
        "connector_id": connector_id,
        "parent": parent,
    }
    others = {"limits": limits, "due_at": due_at, "on_duplicate": on_duplicate}
    if faults := dict(_faults(given | others)):
        raise InvalidOption(faults)
    if parent is not None:
        _check_depth(parent)
    job = BuildJob(
        payload=stored,
        status=JobStatus.SCHEDULED if due_at else JobStatus.PENDING,
        due_at=due_at or Now(),
        limits=limits.stored() if limits else None,
        **given,
    )
    actor = actor or Actor(label="owner" if owner_id else "host", id=owner_id)
    return _insert(job, on_duplicate, actor)


def _stored(payload: object) -> dict[str, Any]:
    """Return the payload as its column keeps it, and nothing that was made to fit."""
    kind = getattr(payload, "kind", None)
    try:
        if isinstance(payload, BaseModel):
            payload = payload.model_dump(mode="json")
        elif isinstance(payload, Mapping):
            kind = payload.get("kind")
        else:
            raise NotStorable(f"it must be an object, not {storing.shown(payload)}")
        made: dict[str, Any] = storing.document(payload, exact=True)
    except (ValueError, TypeError, RecursionError) as why:  # the model's own, too
        known = kind if isinstance(kind, str) else ""
        raise InvalidPayload(known, {"payload": str(why)}) from None
    return made


def _insert(job: BuildJob, on_duplicate: OnDuplicate, actor: Actor) -> BuildJob:
    """Insert the job and return it, or the open one that holds its key."""
    for _ in range(TRIES):
        try:
            with database.atomic():
                job.save(using=database.alias(), force_insert=True)
                job.refresh_from_db(using=database.alias())
                _tell(job, actor)
        except IntegrityError as error:
            if not job.dedupe_key or "build_jobs_one_open_per_key" not in str(error):
                raise
        else:
            return job
        held = _holder_of(job.dedupe_key)
        if held is None:
            continue  # it has ended meanwhile
        if on_duplicate == "return":
            return held
        if on_duplicate == "reject" or not _replaced(held, actor):
            raise DuplicateJob(job.dedupe_key, held.pk)
    raise DuplicateJob(job.dedupe_key or "", None)


def _holder_of(dedupe_key: str) -> BuildJob | None:
    jobs = BuildJob.objects.using(database.alias())
    return jobs.filter(dedupe_key=dedupe_key, completed_at__isnull=True).first()


def _replaced(held: BuildJob, actor: Actor) -> bool:
    """Cancel the job that holds the key, unless it has ever run: it may have done much."""
    why = "replaced by a newer job with the same dedupe key"
    change = transitions.Change(
        transition=states.CANCEL,
        target=JobStatus.CANCELLED,
        actor=actor,
        reason=why,
        values={"error_code": "replaced", "error_msg": why},
    )
    try:
        transitions.apply(held.pk, change, guard=NEVER_RUN)
    except InvalidTransition:
        return False
    return True


def _tell(job: BuildJob, actor: Actor) -> None:
    change = transitions.Change(
        transition=states.ENQUEUE, target=JobStatus(job.status), actor=actor
    )
    transitions.record(job, states.ENQUEUE.name, change=change)
    if job.status == JobStatus.SCHEDULED:
        wakeups.tell_later()
    else:
        wakeups.wake(job.queue)
    signals.job_enqueued_after_commit(job, using=database.alias())


# Bounded, so that a circle made by raw SQL ends, too.
GENERATIONS: Final = """
WITH RECURSIVE line AS (
    SELECT parent_id, 1 AS generation FROM buildqueue_buildjob WHERE id = %s
    UNION ALL
    SELECT job.parent_id, line.generation + 1
    FROM line JOIN buildqueue_buildjob AS job ON job.id = line.parent_id
    WHERE line.generation <= %s
)
SELECT max(generation) FROM line
"""


def _check_depth(parent: BuildJob) -> None:
    most = conf.get().child_depth
    with database.connection().cursor() as cursor:
        cursor.execute(GENERATIONS, [parent.pk, most])
        generations = cursor.fetchone()[0]
    if generations > most:
        raise Refused(
            "child_depth",
            f"The job would be generation {generations} of children; "
            f"BUILDQUEUE['CHILD_DEPTH'] allows {most}.",
        )


def number_fault(name: str, number: object) -> str:
    """Return why a column cannot hold a number; empty when it can."""
    least, most = RANGES[name]
    whole = isinstance(number, int) and not isinstance(number, bool)
    if whole and number in range(least, most + 1):
        return ""
    shown = storing.shown(number)
    return f"must be a whole number from {least} to {most}, not {shown}"


def due_fault(due_at: object) -> str:
    """Return why the table could not hold a due time; empty when it could."""
    if not isinstance(due_at, datetime):
        return f"must be a datetime, not {storing.shown(due_at)}"
    if due_at.utcoffset() is None:
        return "must name its time zone"
    if not MOMENTS[0] <= due_at <= MOMENTS[1]:
        return f"must be from {MOMENTS[0]:%Y} to {MOMENTS[1]:%Y}, not {due_at}"
    return ""


def _faults(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the options that the table would refuse, and what to do about each."""
    for name in RANGES:
        if fault := number_fault(name, given[name]):
            yield name, fault
    for name in TEXTS:
        optional = given[name] is None and name != "owner_id"
        if not optional and (fault := _text_fault(name, given[name])):
            yield name, fault
    for name, kind in KINDS.items():
        value = given[name]
        if value is not None and not isinstance(value, kind):
            yield name, f"must be of type {kind.__name__}, not {storing.shown(value)}"
    if given["due_at"] is not None and (fault := due_fault(given["due_at"])):
        yield "due_at", fault
    if given["on_duplicate"] not in get_args(OnDuplicate):
        listed, shown = ", ".join(get_args(OnDuplicate)), given["on_duplicate"]
        yield "on_duplicate", f"must be one of {listed}, not {storing.shown(shown)}"


def _text_fault(name: str, text: object) -> str:
    field = BuildJob._meta.get_field(name)
    assert isinstance(field, CharField)
    assert field.max_length is not None
    if not isinstance(text, str):
        return f"must be text, not {storing.shown(text)}"
    if not text and name != "owner_id":
        return "must not be empty; leave it out instead"
    if len(text) > field.max_length:
        return f"must have {field.max_length} characters at most, not {len(text)}"
    if text != logs.storable(text):
        return "must not contain NUL or half a surrogate pair"
    return ""
