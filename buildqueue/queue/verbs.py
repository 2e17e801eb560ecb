"""What may people do to a job? Each verb names its actor and reason, and is recorded.

The same functions serve the admin, the API and the command line, so the three cannot
drift. A verb on a running job takes its lease away at once: the row is what the person
wanted, the late report of the process hits nothing, and the worker is told to end it.
If the caller dies before the commit nothing happened; after it the worker finds the
revoked lease within its next look, told or not.

Running again what has ended is in `retrying`, what people decide about outside effects in
`actions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from .. import states
from ..exceptions import InvalidOption, InvalidTransition, NotStorable, Refused
from ..models import BuildJob, JobProgress
from ..models.expressions import ClockTimestamp
from ..states import FINAL, EventKind, JobStatus, Transition
from . import (
    database,
    enqueueing,
    logs,
    questions,
    records,
    storing,
    transitions,
    wakeups,
)
from .outcomes import Actor
from .retrying import Answered, refuse_unknown, retry, retry_many
from .transitions import Change, waits
from .transitions.timeline import demand_reason, named, said

__all__ = [
    "MAY_ANSWER",
    "MAY_DECIDE",
    "MAY_RESCHEDULE",
    "MAY_SETTLE",
    "VERBS",
    "Answered",
    "Verb",
    "allowed",
    "answer",
    "cancel",
    "change_due",
    "change_priority",
    "force_fail",
    "pause",
    "release",
    "resume",
    "retry",
    "retry_many",
]

WAITS = {
    "input": JobStatus.WAITING_INPUT,
    "approval": JobStatus.WAITING_APPROVAL,
    "children": JobStatus.WAITING_CHILDREN,
}
Verb = Callable[..., BuildJob]


# -- ending, and taking from a worker ------------------------------------------------


def cancel(job_id: UUID, *, actor: Actor, reason: str = "") -> BuildJob:
    """Stop an open job for good; InvalidTransition when it has ended."""
    values = {"error_code": "cancelled", "error_msg": reason or "cancelled"}
    return _apply(job_id, states.CANCEL, JobStatus.CANCELLED, actor, reason, values)


def release(job_id: UUID, *, actor: Actor, reason: str = "") -> BuildJob:
    """Take a running job from its worker; it runs again, and nothing is counted.

    Refused with reason_required when nothing says why.
    """
    demand_reason(reason)
    return _apply(job_id, states.RELEASE, JobStatus.PENDING, actor, reason, {})


def force_fail(job_id: UUID, *, actor: Actor, reason: str = "") -> BuildJob:
    """Declare an open job failed; Refused with reason_required when nothing says why."""
    demand_reason(reason)
    values = {"error_code": "force_failed", "error_msg": reason}
    return _apply(job_id, states.FORCE_FAIL, JobStatus.FAILED, actor, reason, values)


# -- holding back and going on -------------------------------------------------------


def pause(job_id: UUID, *, actor: Actor, reason: str = "") -> BuildJob:
    """Hold an open job back; a running process is ended, its finished steps are kept."""
    return _apply(job_id, states.PAUSE, JobStatus.PAUSED, actor, reason, {})


def resume(job_id: UUID, *, actor: Actor, reason: str = "") -> BuildJob:
    """Let a paused job go on where it was: waiting, scheduled or pending.

    One whose wait is over by now is pending. Refused when an outside effect of unknown
    outcome is to be settled first.
    """
    with database.atomic():
        job = _locked(job_id, "resume")
        if job.status == JobStatus.PAUSED:
            refuse_unknown(job)
        target = WAITS.get(waits.waited_for(job).get("for", ""))
        if target is None:
            target = _unclaimed_for(job.due_at)
        return _apply(job_id, states.RESUME, target, actor, reason, {})


# -- when, and how urgent ------------------------------------------------------------


def change_priority(
    job_id: UUID, *, priority: int, actor: Actor, reason: str = ""
) -> BuildJob:
    """Make an open job more or less urgent: -100 to 100, the higher the sooner."""
    if fault := enqueueing.number_fault("priority", priority):
        raise InvalidOption({"priority": fault})
    with database.atomic():
        job = _locked(job_id, "change the priority of")
        if job.status in FINAL:
            raise InvalidTransition(job_id, "change the priority of", job.status)
        BuildJob.objects.using(database.alias()).filter(pk=job_id).update(
            priority=priority
        )
        transitions.record(
            job,
            EventKind.PRIORITY_CHANGED,
            title=str(priority),
            detail={"from": job.priority, "to": priority},
            actor=actor,
            reason=logs.storable(said(reason)),
        )
        if job.status == JobStatus.PENDING:
            wakeups.wake(job.queue)
    job.priority = priority
    return job


def change_due(
    job_id: UUID, *, due_at: datetime, actor: Actor, reason: str = ""
) -> BuildJob:
    """Have a job that has not begun start at another time; one that is past means now."""
    if fault := enqueueing.due_fault(due_at):
        raise InvalidOption({"due_at": fault})
    target = _unclaimed_for(due_at)
    values = {"due_at": due_at}
    return _apply(job_id, states.RESCHEDULE, target, actor, reason, values)


# -- answering -----------------------------------------------------------------------


def answer(
    job_id: UUID,
    *,
    values: Mapping[str, Any],
    actor: Actor,
    reason: str = "",
    key: str | None = None,
) -> BuildJob:
    """Answer what a job asks; it runs again and finds the answer.

    Refused with answer_does_not_fit when it does not fit the question's fields, and with
    question_changed when `key` names another question than the job asks: then nothing is
    stored. A second answer finds the job no longer waiting.
    """
    with database.atomic():
        job = _locked(job_id, "answer")
        if job.status != JobStatus.WAITING_INPUT:
            raise InvalidTransition(job_id, "answer", job.status)
        asked = waits.waited_for(job)
        if key is not None and asked.get("key") != key:
            raise Refused(
                "question_changed",
                "The job asks something else by now: read the new question.",
                status=409,
            )
        given = _stored(questions.check(asked, values))
        row = records.locked(job_id)
        answers = {**row.answers, **given}
        rows = JobProgress.objects.using(database.alias()).filter(pk=job_id)
        rows.update(answers=answers, lease_id=None, updated_at=ClockTimestamp())
        transitions.record(
            job,
            EventKind.ANSWERED,
            title=str(asked.get("question", "")),
            # The values may be nobody else's business.
            detail={"fields": sorted(given)},
            actor=actor,
            reason=logs.storable(said(reason)),
        )
        return _apply(job_id, states.WAKE, JobStatus.PENDING, actor, reason, {})


# -- shared ----------------------------------------------------------------------------


def _locked(job_id: UUID, verb: str) -> BuildJob:
    jobs = BuildJob.objects.using(database.alias()).select_for_update(no_key=True)
    job = jobs.filter(pk=named(job_id, verb)).first()
    if job is None:
        raise InvalidTransition(job_id, verb, None)
    return job


def _stored(answer: dict[str, Any]) -> dict[str, Any]:
    try:
        return storing.mapping(answer, "values")
    except NotStorable as why:
        raise InvalidOption({"values": f"cannot be stored: {why}"}) from None


def _unclaimed_for(due_at: datetime) -> JobStatus:
    with database.connection().cursor() as cursor:
        cursor.execute("SELECT %s > clock_timestamp()", [due_at])
        later = cursor.fetchone()[0]
    return JobStatus.SCHEDULED if later else JobStatus.PENDING


def _apply(
    job_id: UUID,
    transition: Transition,
    target: JobStatus,
    actor: Actor,
    reason: str,
    values: Mapping[str, Any],
) -> BuildJob:
    change = Change(
        transition=transition,
        target=target,
        actor=actor,
        reason=said(reason),
        values=dict(values),
    )
    return transitions.apply(named(job_id, transition.name), change)


# What the edges offer with a reason and nothing else:
# name -> (verb, its transition, the permission it needs).
VERBS: dict[str, tuple[Verb, Transition, str]] = {
    "retry": (retry, states.RETRY, "buildqueue.retry_buildjob"),
    "cancel": (cancel, states.CANCEL, "buildqueue.cancel_buildjob"),
    "pause": (pause, states.PAUSE, "buildqueue.pause_buildjob"),
    "resume": (resume, states.RESUME, "buildqueue.pause_buildjob"),
    "release": (release, states.RELEASE, "buildqueue.release_buildjob"),
    "force_fail": (force_fail, states.FORCE_FAIL, "buildqueue.force_fail_buildjob"),
}
MAY_RESCHEDULE = "buildqueue.reschedule_buildjob"
MAY_ANSWER = "buildqueue.answer_buildjob"
MAY_DECIDE = "buildqueue.decide_jobaction"
MAY_SETTLE = "buildqueue.settle_jobaction"


def allowed(job: BuildJob) -> list[str]:
    """Return the names of the verbs that the job's status allows."""
    return [name for name, (_, t, _p) in VERBS.items() if t.allowed_from(job.status)]
