"""Which decisions on outside effects does the control room offer, in which words?

Each is one of `queue.actions`, on one action at a time. Approving needs the permission to
see the content: nobody lets happen what they cannot read. The decision carries the hash
of what was shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import BuildJob, JobAction
from ..queue import actions, verbs
from ..queue.outcomes import Actor
from ..states import ActionStatus
from . import confirming, display
from .acts import Act, ActingAdmin, says

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


def _settled(admin: ActingAdmin, request: HttpRequest, action: JobAction) -> Any:
    """Say what is to be done now, with a link to it."""
    job = BuildJob.objects.get(pk=action.job_id)
    unknown = job.actions.filter(status=ActionStatus.OUTCOME_UNKNOWN)
    if unknown.exists():
        return _("Settled; another outcome of the job is still to be settled.")
    ways = {"retry": _("now retry the job"), "resume": _("now resume the job")}
    for name in verbs.allowed(job):
        if name in ways and request.user.has_perm(verbs.VERBS[name][2]):
            query = urlencode({"id": str(job.pk), "from": confirming.OWN_PAGE})
            address = f"{admin.admin_url('buildjob_act', name)}?{query}"
            return format_html(
                _("Settled; {now}."), now=display.link(address, ways[name])
            )
    return _("Settled.")


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
        told=says(gettext_lazy("Approved; the job goes on and does it, once.")),
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
        told=says(gettext_lazy("Denied: it will not be done.")),
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
        told=_settled,
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
        told=_settled,
    ),
)
