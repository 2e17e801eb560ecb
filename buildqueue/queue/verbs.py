"""What may people do to a job? Each verb names its actor and reason, and is recorded.

The same functions serve the admin, the API and the command line, so the three cannot
drift. A verb on a running job takes its lease away at once: the row is what the person
wanted, the late report of the process hits nothing, and the worker is told to end it.
If the caller dies before the commit nothing happened; after it the worker finds the
revoked lease within its next look, told or not.

What people decide about outside effects is in `actions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import IntegrityError
from django.db.models import F
from django.db.models.functions import Greatest, Now

from .. import states
from ..exceptions import BuildQueueError, InvalidOption, InvalidTransition, Refused
from ..models import BuildJob, JobAction, JobProgress
from ..models.expressions import ClockTimestamp
from ..states import FINAL, ActionStatus, EventKind, JobStatus, Transition
from . import (
    database,
    enqueueing,
    handlers,
    logs,
    questions,
    records,
    transitions,
    wakeups,
)
from .outcomes import Actor
from .transitions import Change, actionflow, families, waits

MOST_AT_ONCE = 200
WAITS = {
    "input": JobStatus.WAITING_INPUT,
    "approval": JobStatus.WAITING_APPROVAL,
    "children": JobStatus.WAITING_CHILDREN,
}


Verb = Callable[..., BuildJob]


# -- ending and running again --------------------------------------------------------


def cancel(job_id: UUID, *, actor: Actor, reason: str = "") -> BuildJob:
    """Stop an open job for good; InvalidTransition when it has ended."""
    values = {"error_code": "cancelled", "error_msg": reason or "cancelled"}
    return _apply(job_id, states.CANCEL, JobStatus.CANCELLED, actor, reason, values)


def release(job_id: UUID, *, actor: Actor, reason: str = "") -> BuildJob:
    """Take a running job from its worker; it runs again, and nothing is counted.

    Refused with reason_required when nothing says why.
    """
    _demand(reason)
    return _apply(job_id, states.RELEASE, JobStatus.PENDING, actor, reason, {})


def force_fail(job_id: UUID, *, actor: Actor, reason: str = "") -> BuildJob:
    """Declare an open job failed; Refused with reason_required when nothing says why."""
    _demand(reason)
    values = {"error_code": "force_failed", "error_msg": reason}
    return _apply(job_id, states.FORCE_FAIL, JobStatus.FAILED, actor, reason, values)


def retry(job_id: UUID, *, actor: Actor, reason: str = "") -> BuildJob:
    """Run a failed or cancelled job again, with one more try than it has used.

    Its finished steps stay finished, what was turned down is asked anew, and its children
    that did not end done run again, each in a transaction before its own: if the process
    dies in between they are cancelled again. Refused when an outside effect of unknown
    outcome is to be settled first, when its parent did not end done either, when the
    kind's `on_reopen` says no, for instance of a deleted agent, and when another open job
    holds its dedupe key by now.
    """
    _refuse_orphan(job_id)
    why = reason or "its parent is retried"
    for below in families.not_done_below(job_id):
        with suppress(BuildQueueError):  # then its parent finds it as it is
            _retry(below, actor=actor, reason=why)
    return _retry(job_id, actor=actor, reason=reason)


def _refuse_orphan(job_id: UUID) -> None:
    """Refuse what the parent's end would undo."""
    jobs = BuildJob.objects.using(database.alias()).filter(pk=job_id)
    parents = jobs.filter(parent__status__in=waits.FAILED)
    found = parents.values_list("parent_id", "parent__status").first()
    if found is not None:
        parent, status = found
        raise Refused(
            "parent_ended",
            f"Its parent {parent} is {status}: retry that one, and this runs again.",
            status=409,
            extra={"parent": str(parent)},
        )


def _retry(job_id: UUID, *, actor: Actor, reason: str) -> BuildJob:
    values = {
        "due_at": Now(),
        "error_code": None,
        "error_msg": None,
        "result": None,
        "hook_pending": False,
        "max_attempts": Greatest(F("max_attempts"), F("failures") + F("crashes") + 1),
    }
    with database.atomic():
        try:
            job = _apply(job_id, states.RETRY, JobStatus.PENDING, actor, reason, values)
        except IntegrityError as error:
            if "build_jobs_one_open_per_key" not in str(error):
                raise
            raise Refused(
                "duplicate_job",
                "Another open job has the same dedupe key: cancel it, or let it end.",
                status=409,
            ) from None
        _refuse_unknown(job)
        actionflow.ask_anew(job, actor)
        found = handlers.hooks_of(job.kind)
        if found and found.on_reopen:
            found.on_reopen(job)
    return job


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What became of one job of many: no code means that the verb was applied."""

    job_id: UUID
    code: str = ""
    message: str = ""


def retry_many(
    job_ids: Sequence[UUID], *, actor: Actor, reason: str = ""
) -> list[Answered]:
    """Retry up to 200 jobs, each in its own transaction, and tell of each.

    If the process dies in it, those so far are retried and the others untouched.
    """
    if not 1 <= len(job_ids) <= MOST_AT_ONCE:
        why = f"must be 1 to {MOST_AT_ONCE}, not {len(job_ids)}"
        raise InvalidOption({"job_ids": why})
    answers = []
    for job_id in dict.fromkeys(job_ids):
        try:
            retry(job_id, actor=actor, reason=reason)
        except BuildQueueError as error:
            code = str(getattr(error, "code", "refused"))
            answers.append(Answered(job_id=job_id, code=code, message=str(error)))
        else:
            answers.append(Answered(job_id=job_id))
    return answers


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
            _refuse_unknown(job)
        target = WAITS.get(waits.waited_for(job).get("for", ""))
        if target is None:
            target = _unclaimed_for(job.due_at)
        return _apply(job_id, states.RESUME, target, actor, reason, {})


# -- when, and how urgent ------------------------------------------------------------


def change_priority(
    job_id: UUID, *, priority: int, actor: Actor, reason: str = ""
) -> BuildJob:
    """Make an open job more or less urgent: -100 to 100, the higher the sooner."""
    if priority not in range(-100, 101):
        why = f"must be a whole number from -100 to 100, not {priority!r}"
        raise InvalidOption({"priority": why})
    with database.atomic():
        job = _locked(job_id, "change the priority of")
        if job.status in FINAL:
            raise InvalidTransition(job_id, "change the priority of", job.status)
        BuildJob.objects.using(database.alias()).filter(pk=job_id).update(
            priority=priority
        )
        told = {"from": job.priority, "to": priority}
        transitions.record(
            job,
            EventKind.PRIORITY_CHANGED,
            title=str(priority),
            detail=told,
            actor=actor,
            reason=logs.storable(reason),
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
        given = logs.storable_json(questions.check(asked, values))
        row = records.locked(job_id)
        answers = {**row.answers, **given}
        rows = JobProgress.objects.using(database.alias()).filter(pk=job_id)
        rows.update(answers=answers, lease_id=None, updated_at=ClockTimestamp())
        transitions.record(
            job,
            EventKind.ANSWERED,
            title=str(asked.get("question", "")),
            detail={
                "fields": sorted(given)
            },  # the values may be nobody else's business
            actor=actor,
            reason=logs.storable(reason),
        )
        return _apply(job_id, states.WAKE, JobStatus.PENDING, actor, reason, {})


# -- shared ----------------------------------------------------------------------------


def _demand(reason: str) -> None:
    if not reason.strip():
        raise Refused("reason_required", "Say why: the job's history keeps it.")


def _locked(job_id: UUID, verb: str) -> BuildJob:
    jobs = BuildJob.objects.using(database.alias()).select_for_update(no_key=True)
    job = jobs.filter(pk=job_id).first()
    if job is None:
        raise InvalidTransition(job_id, verb, None)
    return job


def _refuse_unknown(job: BuildJob) -> None:
    rows = JobAction.objects.using(database.alias())
    unknown = rows.filter(job_id=job.pk, status=ActionStatus.OUTCOME_UNKNOWN).first()
    if unknown is not None:
        raise Refused(
            "outcome_unknown",
            f"Whether {unknown.title!r} happened is not known: look, and settle it first.",
            status=409,
            extra={"action": str(unknown.pk)},
        )


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
        reason=reason,
        values=dict(values),
    )
    return transitions.apply(job_id, change)


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
