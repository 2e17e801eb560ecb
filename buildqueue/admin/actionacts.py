"""Which decisions on outside effects does the control room offer, in which words?

Each is one of `queue.actions`, on one action at a time. Approving needs the permission to
see the content: nobody lets happen what they cannot read. The decision carries the hash
of what was shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import JobAction
from ..queue import actions, verbs
from ..queue.outcomes import Actor
from ..states import ActionStatus
from .acts import Act

CONTENT = "admin/buildqueue/jobaction/content.html"


def _unless(wanted: ActionStatus) -> Callable[[JobAction], str]:
    def why_not(action: JobAction) -> str:
        if action.status == wanted:
            return ""
        status = ActionStatus(action.status).label
        if not action.decided_by:
            return _("it is %(status)s") % {"status": status}
        told = {"status": status, "by": action.decided_by}
        return _("it is %(status)s, decided by %(by)s") % told

    return why_not


def _seen(action: JobAction) -> str:
    return action.content_hash


def _decide(decision: Callable[..., JobAction]) -> Callable[..., object]:
    def call(action: JobAction, actor: Actor, reason: str, *, seen: str) -> JobAction:
        return decision(action.pk, content_hash=seen, actor=actor, reason=reason)

    return call


def _settle(happened: bool) -> Callable[[JobAction, Actor, str], object]:
    def call(action: JobAction, actor: Actor, reason: str) -> JobAction:
        return actions.settle(action.pk, happened=happened, actor=actor, reason=reason)

    return call


def _act(name: str, label: Any, effect: Any, status: ActionStatus, **more: Any) -> Act:
    return Act(
        name=name,
        label=label,
        action_label=label,
        effect=effect,
        why_not=_unless(status),
        shows=CONTENT,
        for_many=False,
        **more,
    )


ACTION_ACTS = (
    _act(
        "approve",
        gettext_lazy("Approve"),
        gettext_lazy("The job goes on and does exactly this, once."),
        ActionStatus.AWAITING_REVIEW,
        permission=verbs.MAY_DECIDE,
        also=("buildqueue.view_payload",),
        call=_decide(actions.approve),
        seen=_seen,
        needs_reason=False,
    ),
    _act(
        "deny",
        gettext_lazy("Deny"),
        gettext_lazy("It will not be done. The job goes on, and fails by it."),
        ActionStatus.AWAITING_REVIEW,
        permission=verbs.MAY_DECIDE,
        call=_decide(actions.deny),
        seen=_seen,
    ),
    _act(
        "happened",
        gettext_lazy("It happened"),
        gettext_lazy(
            "You have looked, and it was done. A retry of the job takes it as done and "
            "does not do it again."
        ),
        ActionStatus.OUTCOME_UNKNOWN,
        permission=verbs.MAY_SETTLE,
        call=_settle(True),
    ),
    _act(
        "not_happened",
        gettext_lazy("It did not happen"),
        gettext_lazy(
            "You have looked, and it was not done. A retry of the job does it, once."
        ),
        ActionStatus.OUTCOME_UNKNOWN,
        permission=verbs.MAY_SETTLE,
        call=_settle(False),
    ),
)
