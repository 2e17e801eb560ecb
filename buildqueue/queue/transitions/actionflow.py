"""How does the status of an action change? By `move`, and nowhere else.

Each move is a guarded UPDATE that must hit the row, and an event of the job, in the
transaction that is open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from ...destinations import NoticeEvent
from ...exceptions import Refused
from ...models import BuildJob, JobAction
from ...models.expressions import ClockTimestamp
from ...states import ACTION_FLOW, ActionStatus, EventKind
from .. import database, logs, outbox
from ..outcomes import SYSTEM, WORKER, Actor
from .timeline import record

_S, _E = ActionStatus, EventKind
EVENTS = {
    _S.AWAITING_REVIEW: _E.ACTION_REOPENED,
    _S.APPROVED: _E.ACTION_APPROVED,
    _S.EXECUTING: _E.ACTION_EXECUTING,
    _S.SUCCEEDED: _E.ACTION_SUCCEEDED,
    _S.FAILED: _E.ACTION_FAILED,
    _S.OUTCOME_UNKNOWN: _E.ACTION_OUTCOME_UNKNOWN,
    _S.DENIED: _E.ACTION_DENIED,
    _S.CANCELLED: _E.ACTION_CANCELLED,
    _S.EXPIRED: _E.ACTION_EXPIRED,
}
NOTICES = {
    _S.AWAITING_REVIEW: NoticeEvent.APPROVAL_ASKED,
    _S.OUTCOME_UNKNOWN: NoticeEvent.OUTCOME_UNKNOWN,
}
UNDECIDED = (_S.AWAITING_REVIEW, _S.APPROVED)


def move(
    action: JobAction,
    to: ActionStatus,
    *,
    actor: Actor | None = None,
    reason: str = "",
    lease: UUID | None = None,
    event: EventKind | None = None,
    told: Mapping[str, Any] | None = None,
    **values: Any,
) -> JobAction:
    """Give the action its next status and return it; Refused when it is elsewhere by now.

    `lease` is the writer's, None for anybody but a run; who that is follows from it.
    """
    rows = JobAction.objects.using(database.alias())
    # The reason of the decision; a settlement has its own.
    if to == _S.AWAITING_REVIEW or (reason and event is None):
        values["reason"] = logs.storable(reason)
    hit = rows.filter(
        pk=action.pk, status=action.status, status__in=sorted(ACTION_FLOW[to])
    ).update(status=to, lease_id=lease, **logs.storable_json(values))
    if hit != 1:
        found = rows.filter(pk=action.pk).values_list("status", flat=True).first()
        raise Refused(
            "already_decided",
            f"The action cannot become {to.label}: it is {found or 'gone'} by now.",
            status=409,
            extra={"found": found},
        )
    moved = rows.select_related("job").get(pk=action.pk)
    who = actor or (WORKER if lease else SYSTEM)
    tell(moved, event or EVENTS[to], who, reason, told)
    return moved


def tell(
    action: JobAction,
    event: EventKind,
    actor: Actor = WORKER,
    reason: str = "",
    told: Mapping[str, Any] | None = None,
) -> None:
    """Tell of an action: its job's timeline, and who outside must know where it stands."""
    if wanted := NOTICES.get(ActionStatus(action.status)):
        outbox.tell_action(action.job, action, wanted)
    detail = {"action": str(action.pk), "key": action.key, **(told or {})}
    if action.error_msg:
        detail["error"] = action.error_msg
    record(
        action.job,
        event,
        run=action.lease_id,
        title=action.title,
        detail=detail,
        actor=actor,
        reason=logs.storable(reason),
    )


def leave_unknown(action: JobAction) -> JobAction:
    """Say of an effect under way whose run is gone that nobody knows how it went."""
    why = "its run ended while it was under way"
    return move(action, _S.OUTCOME_UNKNOWN, ended_at=ClockTimestamp(), error_msg=why)


def unsettled(job: BuildJob) -> list[JobAction]:
    """Return the effects that the job's run has begun and whose outcome is not known.

    Those under way, and those of which the run has said so itself; who settles one takes
    the run's lease off it.
    """
    rows = JobAction.objects.using(database.alias())
    begun = rows.filter(job_id=job.pk, lease_id=job.lease_id)
    not_known = begun.filter(status__in=(_S.EXECUTING, _S.OUTCOME_UNKNOWN))
    return list(not_known.order_by("created_at"))


def cancel_undecided(job: BuildJob) -> None:
    """Cancel what the ended job has proposed and nobody will do."""
    rows = JobAction.objects.using(database.alias())
    for action in rows.filter(job_id=job.pk, status__in=UNDECIDED):
        move(action, _S.CANCELLED, reason="its job has ended")


def ask_anew(job: BuildJob, actor: Actor) -> None:
    """Have what was turned down, or was never decided, reviewed again: a person retries."""
    rows = JobAction.objects.using(database.alias())
    turned_down = (_S.DENIED, _S.EXPIRED, _S.CANCELLED)
    for action in rows.filter(job_id=job.pk, status__in=turned_down):
        again = action.needs_review or action.status == _S.DENIED
        span = action.expires_at - action.asked_at if action.expires_at else None
        move(
            action,
            _S.AWAITING_REVIEW if again else _S.APPROVED,
            actor=actor,
            event=EventKind.ACTION_REOPENED,
            asked_at=ClockTimestamp(),
            expires_at=None if span is None else ClockTimestamp() + span,
            decided_at=None,
            decided_by="",
            decided_by_id="",
        )
