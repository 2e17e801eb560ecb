"""How does a test call one handler, once, and look at what it did?

On a job of its own, enqueued and claimed for real, so that steps, checkpoints, actions
and children are rows like any others. Its answer is returned and not reported: the job
stays in progress, and nothing is retried, waits or ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from ..exceptions import UnknownKind
from ..models import BuildJob, Checkpoint, JobAction, JobEvent, JobProgress, LogChunk
from ..queue import claiming, database, enqueueing, handlers, records, transitions
from ..queue.claiming import Scope
from ..queue.handlers import Handler, HandlerFunction
from ..queue.outcomes import Outcome
from ..states import EventKind, RunOutcome
from ..worker import judging, runner
from . import emulation
from .asserting import Payload


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A fact that the handler told by `ctx.note`."""

    title: str
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """What a handler answered and left behind."""

    job: BuildJob  # in progress, its lease held
    outcome: Outcome  # what a worker would report; an exception is one, too
    notes: list[Note]
    steps: dict[str, Any]  # the result of each finished step, by name
    log: str  # what it printed
    state: dict[str, Any]
    actions: dict[str, JobAction]  # by key
    children: list[BuildJob]


def run_handler(
    kind_or_function: str | HandlerFunction,
    payload: Payload | None = None,
    *,
    attempt: int = 1,
    state: Mapping[str, Any] | None = None,
    answers: Mapping[str, Any] | None = None,
    after: Handled | None = None,
    **options: Any,
) -> Handled:
    """Call a handler once and return what it answered, and what it has left behind.

    `state` and `answers` are what it finds from earlier attempts and from people;
    `after` makes it the next attempt of the job of an earlier call, whose finished steps
    and actions it then finds. Other options are those of `enqueue`, but for `due_at`: it
    is called now.
    """
    if "due_at" in options:
        raise TypeError("run_handler calls the handler now: leave due_at out")
    known = _handler(kind_or_function)
    if after is None:
        job = _new_job(known, payload, attempt, options)
    else:
        job = _handed_back(after.job)
    _prepare(job, state, answers)
    job = _claimed(job)
    with emulation.as_in_a_worker(job):
        outcome = runner.call(job)
    return _handled(job, outcome)


def _handler(kind_or_function: str | HandlerFunction) -> Handler:
    if isinstance(kind_or_function, str):
        return handlers.get(kind_or_function)
    for name in handlers.names():
        known = handlers.get(name)
        if known.function is kind_or_function:
            return known
    raise UnknownKind(repr(kind_or_function), handlers.kinds())


def _new_job(
    known: Handler, payload: Payload | None, attempt: int, options: dict[str, Any]
) -> BuildJob:
    if not isinstance(payload, BaseModel):
        payload = {"kind": known.kind, **(payload or {})}
    job = enqueueing.enqueue(payload, **options)
    rows = BuildJob.objects.using(database.alias()).filter(pk=job.pk)
    rows.update(attempt=attempt - 1)
    return job


def _handed_back(job: BuildJob) -> BuildJob:
    change = judging.hand_back_change({"outcome": RunOutcome.RELEASED})
    return transitions.apply(job.pk, change, fence=job.lease_id)


def _prepare(
    job: BuildJob, state: Mapping[str, Any] | None, answers: Mapping[str, Any] | None
) -> None:
    given = {"state": state, "answers": answers}
    values = {name: dict(value) for name, value in given.items() if value is not None}
    if values:
        records.ensure(job.pk)
        rows = JobProgress.objects.using(database.alias()).filter(pk=job.pk)
        rows.update(lease_id=None, **values)


def _claimed(job: BuildJob) -> BuildJob:
    """Take exactly this job: for the claim it is in a queue of its own."""
    own = f"run_handler {job.pk}"
    scope = Scope(queues=(own,), capabilities=(job.requires or "",))
    rows = BuildJob.objects.using(database.alias()).filter(pk=job.pk)
    rows.update(queue=own)
    taken = claiming.claim(scope, emulation.holder())
    rows.update(queue=job.queue)
    if not taken:
        raise RuntimeError(f"{job} cannot run now: does another hold its serial key?")
    [claimed] = taken
    claimed.queue = job.queue
    return claimed


def _handled(job: BuildJob, outcome: Outcome) -> Handled:
    assert job.lease_id is not None
    alias = database.alias()
    told = JobEvent.objects.using(alias).filter(run=job.lease_id, kind=EventKind.NOTE)
    steps = Checkpoint.objects.using(alias).filter(job_id=job.pk).order_by("id")
    actions = JobAction.objects.using(alias).filter(job_id=job.pk)
    chunks = LogChunk.objects.using(alias).filter(run_id=job.lease_id)
    children = BuildJob.objects.using(alias).filter(parent_id=job.pk)
    job.refresh_from_db(using=alias)
    return Handled(
        job=job,
        outcome=outcome,
        notes=[Note(title=e.title, detail=e.detail) for e in told.order_by("id")],
        steps={step.step: step.result for step in steps},
        log="".join(chunk.text for chunk in chunks.order_by("seq")),
        state=records.state_of(job.pk),
        actions={a.key: a for a in actions.order_by("created_at")},
        children=list(children.order_by("seq")),
    )
