"""Who may do what to an outside effect of a job? Runs propose, people decide, runs perform.

A decision names the hash of what was seen: content that is another by then is refused.
Decisions lock the job first and its action second, so they and the run's wait for them
cannot miss each other. If the process dies before the commit nothing was decided.
"""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError

from ..exceptions import PermanentError, Refused
from ..models import BuildJob, JobAction
from ..models.expressions import ClockTimestamp
from ..states import ActionStatus, EventKind
from . import database, logs, outbox, transitions
from .outcomes import Actor
from .transitions import actionflow

_S = ActionStatus
LONGEST_KEY = 200


def hash_of(content: Any) -> str:
    """Return the hash that binds a decision to what was seen."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


# -- of a run, inside its fence ------------------------------------------------------


def find(job_id: UUID, key: str) -> JobAction | None:
    """Return the job's action of this key."""
    rows = JobAction.objects.using(database.alias())
    return rows.filter(job_id=job_id, key=key).first()


def propose(
    job: BuildJob,
    key: str,
    content: dict[str, Any],
    *,
    title: str,
    review: bool,
    expires_in: timedelta,
    lease: UUID,
) -> JobAction:
    """Return the job's action of this key, made now unless there is one."""
    if not key or len(key) > LONGEST_KEY or key != logs.storable(key):
        raise ValueError(f"an action needs a key of 1 to {LONGEST_KEY} characters")
    content = logs.storable_json(content)
    digest = hash_of(content)
    action = find(job.pk, key)
    if action is None:
        made = JobAction(
            job=job,
            key=key,
            title=logs.storable(title)[:LONGEST_KEY],
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
    actionflow.record_event(made, EventKind.ACTION_PROPOSED)
    if made.needs_review:
        outbox.tell_action(made.job, made, "approval.asked")
    return made


def is_over_time(action: JobAction) -> bool:
    """Tell whether the action's time is over, by the database's clock."""
    rows = JobAction.objects.using(database.alias())
    open_ones = rows.filter(pk=action.pk, status__in=actionflow.UNDECIDED)
    return open_ones.filter(expires_at__lte=ClockTimestamp()).exists()


def begin(action: JobAction, lease: UUID) -> JobAction:
    """Say that a run brings the effect about now."""
    _hold_job(action.job_id)
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
    _hold_job(action.job_id)
    rows = JobAction.objects.using(database.alias())
    if rows.filter(pk=action.pk, status=status, lease_id=lease).exists():
        return action
    moved = actionflow.move(
        action,
        status,
        lease=lease,
        ended_at=ClockTimestamp(),
        receipt=receipt,
        error_msg=error[:2000] or None,
    )
    if status == _S.OUTCOME_UNKNOWN:
        outbox.tell_action(moved.job, moved, "action.outcome_unknown")
    return moved


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
    _demand(reason)
    return _decide(action_id, _S.DENIED, content_hash, actor, reason)


def settle(action_id: UUID, *, happened: bool, actor: Actor, reason: str) -> JobAction:
    """Say what really became of an effect of unknown outcome; its job can be retried.

    One that did not happen is performed by the retry, one that did is not.
    """
    _demand(reason)
    to = _S.SUCCEEDED if happened else _S.FAILED
    with database.atomic():
        action = _locked(action_id)
        if action.status != _S.OUTCOME_UNKNOWN:
            raise _decided(action)
        return actionflow.move(
            action,
            to,
            actor=actor,
            reason=reason,
            event=EventKind.ACTION_SETTLED,
            receipt={"settled_by": actor.label, "reason": logs.storable(reason)}
            if happened
            else None,
        )


def _decide(
    action_id: UUID, to: ActionStatus, content_hash: str, actor: Actor, reason: str
) -> JobAction:
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
    """Return the action, its job locked first and itself second."""
    rows = JobAction.objects.using(database.alias())
    job_id = rows.filter(pk=action_id).values_list("job_id", flat=True).first()
    if job_id is None or not _hold_job(job_id):
        raise Refused("not_found", "There is no such action.", status=404)
    return rows.select_for_update(no_key=True).get(pk=action_id)


def _hold_job(job_id: UUID) -> bool:
    """Lock the job before its action, as who takes the lease does; false: it is gone."""
    jobs = BuildJob.objects.using(database.alias()).select_for_update(no_key=True)
    return jobs.filter(pk=job_id).values_list("pk").first() is not None


def _decided(action: JobAction) -> Refused:
    label = ActionStatus(action.status).label
    by = f" by {action.decided_by}" if action.decided_by else ""
    return Refused(
        "already_decided",
        f"The action is {label}{by}: nothing is left to decide.",
        status=409,
        extra={"found": action.status},
    )


def _demand(reason: str) -> None:
    if not reason.strip():
        raise Refused("reason_required", "Say why: the job's history keeps it.")


# -- of duties -----------------------------------------------------------------------


def expire(action: JobAction) -> JobAction:
    """Say that nobody decided in time, or that what was decided is too old to be done."""
    return actionflow.move(action, _S.EXPIRED, reason="nobody decided in time")


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
                why = "its run ended while it was under way"
                moved = actionflow.move(
                    action,
                    _S.OUTCOME_UNKNOWN,
                    ended_at=ClockTimestamp(),
                    error_msg=why,
                )
                outbox.tell_action(moved.job, moved, "action.outcome_unknown")
                count += 1
    return count
