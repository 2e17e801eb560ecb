"""Who may do what to an outside effect of a job? Runs propose, people decide, runs perform.

A decision names the hash of what was seen: content that is another by then is refused.
Decisions lock the job first and its action second, so they and the run's wait for them
cannot miss each other; a run's own moves are made inside `fencing.fenced_job_first`, which
holds its job. If the process dies before the commit nothing was decided.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError

from ..exceptions import InvalidOption, NotStorable, PermanentError, Refused
from ..models import BuildJob, JobAction
from ..models.expressions import ClockTimestamp
from ..states import ActionStatus, EventKind
from . import database, logs, storing, transitions
from .outcomes import Actor
from .transitions import actionflow
from .transitions.timeline import demand_reason, said

_S = ActionStatus
UNDONE = (*actionflow.UNDECIDED, _S.FAILED)  # and may be done as long as it is approved
LONGEST_KEY = 200
LONGEST_WAIT = timedelta(days=36_500)  # a column ends with the year 9999


def hash_of(content: Any) -> str:
    """Return the hash that binds a decision to what was seen."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


# -- of a run, which holds its job ---------------------------------------------------


def find(job_id: UUID, key: str) -> JobAction | None:
    """Return the job's action of this key."""
    rows = JobAction.objects.using(database.alias())
    return rows.filter(job_id=job_id, key=key).first()


def any_of(job: BuildJob) -> bool:
    """Tell whether the job has proposed anything."""
    return JobAction.objects.using(database.alias()).filter(job_id=job.pk).exists()


def propose(
    job: BuildJob,
    key: str,
    content: Mapping[str, Any],
    *,
    title: str,
    review: bool,
    expires_in: timedelta,
    lease: UUID,
) -> JobAction:
    """Return the job's action of this key, made now unless there is one.

    NotStorable says which of them cannot be kept.
    """
    storing.name(key, LONGEST_KEY, "an action's key")
    spans = isinstance(expires_in, timedelta)
    if not spans or not timedelta(0) < expires_in <= LONGEST_WAIT:
        most = LONGEST_WAIT.days
        raise NotStorable(f"expires_in is a timedelta above 0, of {most} days at most")
    content = storing.mapping(content, "content")
    digest = hash_of(content)
    action = find(job.pk, key)
    if action is None:
        made = JobAction(
            job=job,
            key=key,
            title=storing.text(title, "title")[:LONGEST_KEY],
            content=content,
            content_hash=digest,
            status=_S.AWAITING_REVIEW if review else _S.APPROVED,
            needs_review=review,
            expires_at=ClockTimestamp() + expires_in,
            lease_id=lease,
            attempt=job.attempt,
        )
        action = _insert(made)
    if action.content_hash != digest:
        raise PermanentError(
            f"action {key!r} was proposed with other content; give it another key",
            code="action_changed",
        )
    return action


def _insert(made: JobAction) -> JobAction:
    try:
        with database.atomic():
            made.save(using=database.alias(), force_insert=True)
    except IntegrityError:  # a thread of the same run was faster
        found = find(made.job_id, made.key)
        if found is None:
            raise
        return found
    made.refresh_from_db(using=database.alias())
    actionflow.tell(made, EventKind.ACTION_PROPOSED)
    return made


def is_over_time(action: JobAction) -> bool:
    """Tell whether the action's time is over, by the database's clock."""
    rows = JobAction.objects.using(database.alias())
    undone = rows.filter(pk=action.pk, status__in=UNDONE)
    return undone.filter(expires_at__lte=ClockTimestamp()).exists()


def begin(action: JobAction, lease: UUID) -> JobAction:
    """Say that a run brings the effect about now."""
    now = ClockTimestamp()
    return actionflow.move(
        action, _S.EXECUTING, lease=lease, started_at=now, ended_at=None, error_msg=None
    )


def end(
    action: JobAction,
    status: ActionStatus,
    lease: UUID,
    *,
    receipt: dict[str, Any] | None,
    error: str,
) -> JobAction:
    """Say what became of it; saying the same again changes nothing."""
    rows = JobAction.objects.using(database.alias())
    if rows.filter(pk=action.pk, status=status, lease_id=lease).exists():
        return action
    return actionflow.move(
        action,
        status,
        lease=lease,
        ended_at=ClockTimestamp(),
        receipt=receipt,
        error_msg=error[:2000] or None,
    )


# -- of people ---------------------------------------------------------------------


def approve(
    action_id: UUID, *, content_hash: str, actor: Actor, reason: str = ""
) -> JobAction:
    """Let the effect happen. Approving what is approved already is refused.

    Refused with not_found, already_decided, content_changed or action_expired.
    """
    return _decide(action_id, _S.APPROVED, content_hash, actor, reason)


def deny(action_id: UUID, *, content_hash: str, actor: Actor, reason: str) -> JobAction:
    """Have the effect not happen, and say why; the job goes on and fails by it."""
    demand_reason(reason)
    return _decide(action_id, _S.DENIED, content_hash, actor, reason)


def settle(
    action_id: UUID,
    *,
    happened: bool,
    actor: Actor,
    reason: str,
    receipt: dict[str, Any] | None = None,
) -> JobAction:
    """Say what really became of an effect of unknown outcome; its job can be retried.

    One that did not happen is performed by the retry, one that did is not: then `perform`
    returns the receipt that is given here, or an empty one.
    """
    demand_reason(reason)
    try:
        kept = storing.mapping(receipt or {}, "receipt")
    except NotStorable as fault:
        raise InvalidOption({"receipt": f"cannot be stored: {fault}"}) from None
    to = _S.SUCCEEDED if happened else _S.FAILED
    with database.atomic():
        action = _locked(action_id)
        if action.status != _S.OUTCOME_UNKNOWN:
            raise _decided(action)
        why = logs.storable(reason)
        return actionflow.move(
            action,
            to,
            actor=actor,
            reason=reason,
            event=EventKind.ACTION_SETTLED,
            told={"happened": happened},
            receipt=kept if happened else None,
            error_msg=None if happened else f"it did not happen: {why}",
            settled_at=ClockTimestamp(),
            settled_by=actor.label,
            settled_reason=why,
        )


def _decide(
    action_id: UUID, to: ActionStatus, content_hash: str, actor: Actor, reason: str
) -> JobAction:
    reason = said(reason)
    with database.atomic():
        action = _locked(action_id)
        if action.status != _S.AWAITING_REVIEW:
            raise _decided(action)
        late = is_over_time(action)
        if late:
            expire(action)
        elif action.content_hash != content_hash:
            raise Refused(
                "content_changed",
                "What you have seen is not what would be done: look at it again.",
                status=409,
            )
        else:
            action = actionflow.move(
                action,
                to,
                actor=actor,
                reason=reason,
                decided_at=ClockTimestamp(),
                decided_by=actor.label,
                decided_by_id=actor.id,
            )
        transitions.settle(action.job_id)
    if late:
        raise Refused(
            "action_expired",
            "Its time is over: retry the job, and it is proposed again.",
            status=409,
        )
    return action


def _locked(action_id: UUID) -> JobAction:
    """Return the action, its job locked first, as who takes the lease does."""
    rows = JobAction.objects.using(database.alias())
    known = storing.identifier(action_id)
    found = rows.none() if known is None else rows.filter(pk=known)
    job_id = found.values_list("job_id", flat=True).first()
    jobs = BuildJob.objects.using(database.alias()).select_for_update(no_key=True)
    if job_id is None or jobs.filter(pk=job_id).first() is None:
        raise Refused("not_found", "There is no such action.", status=404)
    return rows.select_for_update(no_key=True).get(pk=action_id)


def _decided(action: JobAction) -> Refused:
    label = ActionStatus(action.status).label
    by = f" (decided by {action.decided_by})" if action.decided_by else ""
    return Refused(
        "already_decided",
        f"The action is {label}{by}: nothing is left to decide.",
        status=409,
        extra={"found": action.status},
    )


# -- of duties -----------------------------------------------------------------------


def expire(action: JobAction) -> JobAction:
    """Say that nobody decided in time, or that what was decided is too old to be done."""
    approved = action.status == _S.APPROVED
    why = "it was not done in time" if approved else "nobody decided in time"
    return actionflow.move(action, _S.EXPIRED, reason=why)


def expire_old(limit: int = 100) -> int:
    """Expire what nobody decided in time, and wake the jobs that waited for it."""
    rows = JobAction.objects.using(database.alias())
    over = rows.filter(status=_S.AWAITING_REVIEW, expires_at__lte=ClockTimestamp())
    count = 0
    for action_id in over.order_by("expires_at").values_list("pk", flat=True)[:limit]:
        with database.atomic():
            action = _locked(action_id)
            if action.status == _S.AWAITING_REVIEW and is_over_time(action):
                expire(action)
                transitions.settle(action.job_id)
                count += 1
    return count


def sweep(limit: int = 100) -> int:
    """Say of every effect under way whose run is gone that its outcome is unknown.

    A living run's is left alone, whichever worker it belongs to. The transition that ends
    a run does the same at once; this finds what went another way.
    """
    rows = JobAction.objects.using(database.alias())
    jobs = BuildJob.objects.using(database.alias()).filter(lease_id__isnull=False)
    stray = rows.filter(status=_S.EXECUTING).exclude(
        lease_id__in=jobs.values("lease_id")
    )
    count = 0
    for action_id in stray.values_list("pk", flat=True)[:limit]:
        with database.atomic():
            action = _locked(action_id)
            held = jobs.filter(pk=action.job_id, lease_id=action.lease_id).exists()
            if action.status == _S.EXECUTING and not held:
                actionflow.leave_unknown(action)
                count += 1
    return count
