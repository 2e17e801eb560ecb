"""How do people have jobs run again that failed or were cancelled?

What is finished stays finished: steps, children that ended done, effects that happened.
A job is retried with its children in one transaction: a refusal, or a crash, leaves all
of them as they were. Of many jobs each has a transaction of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import IntegrityError
from django.db.models import F
from django.db.models.functions import Greatest, Now

from .. import states
from ..exceptions import BuildQueueError, InvalidOption, Refused
from ..models import BuildJob, JobAction
from ..states import ActionStatus, JobStatus
from . import database, handlers, transitions
from .outcomes import Actor
from .transitions import actionflow, families, waits
from .transitions.timeline import named, said

MOST_AT_ONCE = 200


def retry(job_id: UUID, *, actor: Actor, reason: str = "") -> BuildJob:
    """Run a failed or cancelled job again, with one more try than it has used.

    Its finished steps stay finished, what was turned down is asked anew, and its children
    that did not end done run again with it. Refused when an outside effect of unknown
    outcome is to be settled first, when its parent did not end done either, when the
    kind's `on_reopen` says no, for instance of a deleted agent, and when another open job
    holds its dedupe key by now.
    """
    job_id, reason = named(job_id, states.RETRY.name), said(reason)
    _refuse_orphan(job_id)
    why = reason or "its parent is retried"
    again = 0
    with database.atomic():
        for below in families.not_done_below(
            job_id
        ):  # a child's row before its parent's
            with suppress(BuildQueueError):  # then its parent finds it as it is
                _retry(below, actor=actor, reason=why)
                again += 1
        told = {"children": again} if again else {}
        return _retry(job_id, actor=actor, reason=reason, told=told)


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


def _retry(
    job_id: UUID, *, actor: Actor, reason: str, told: dict[str, Any] | None = None
) -> BuildJob:
    values = {
        "due_at": Now(),
        "error_code": None,
        "error_msg": None,
        "result": None,
        "hook_pending": False,
        "max_attempts": Greatest(F("max_attempts"), F("failures") + F("crashes") + 1),
    }
    change = transitions.Change(
        transition=states.RETRY,
        target=JobStatus.PENDING,
        actor=actor,
        reason=reason,
        values=values,
        detail=told or {},
    )
    with database.atomic():
        try:
            job = transitions.apply(job_id, change)
        except IntegrityError as error:
            if "build_jobs_one_open_per_key" not in str(error):
                raise
            raise Refused(
                "duplicate_job",
                "Another open job has the same dedupe key: cancel it, or let it end.",
                status=409,
            ) from None
        refuse_unknown(job)
        actionflow.ask_anew(job, actor)
        found = handlers.hooks_of(job.kind)
        if found and found.on_reopen:
            found.on_reopen(job)
    return job


def refuse_unknown(job: BuildJob) -> None:
    """Refuse to have a job run while nobody knows how an effect of it went."""
    rows = JobAction.objects.using(database.alias())
    unknown = rows.filter(job_id=job.pk, status=ActionStatus.OUTCOME_UNKNOWN).first()
    if unknown is not None:
        raise Refused(
            "outcome_unknown",
            f"Whether {unknown.title!r} happened is not known: look, and settle it first.",
            status=409,
            extra={"action": str(unknown.pk)},
        )


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
