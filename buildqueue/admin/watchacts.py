"""Which verbs on watches and on what they propose does the control room offer?

They are those of `builds.watches` and `builds.proposals`, each with a lock of its own;
what is said here is only what people read.
"""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..builds import proposals, watches
from ..models import Proposal, SourceWatch
from ..queue.outcomes import Actor
from ..states import ProposalStatus, WatchStatus
from .acts import Act, says

MAY_CHANGE = "buildqueue.change_sourcewatch"
MAY_DECIDE = "buildqueue.decide_proposal"


def _why_not_active(watch: SourceWatch) -> str:
    if watch.status == WatchStatus.ACTIVE:
        return ""
    return _("it is paused")


def _why_not_resume(watch: SourceWatch) -> str:
    if watch.agent.deleted_at:
        return _("its agent was deleted")
    return "" if watch.status == WatchStatus.PAUSED else _("it is active")


def _always(_watch: SourceWatch) -> str:
    return ""


def _pause(watch: SourceWatch, actor: Actor, reason: str) -> object:
    return watches.pause_watch(watch, actor=actor, reason=reason)


def _resume(watch: SourceWatch, actor: Actor, reason: str) -> object:
    return watches.resume_watch(watch, actor=actor, reason=reason)


def _check(watch: SourceWatch, actor: Actor, reason: str) -> object:
    return watches.check_now(watch, actor=actor, reason=reason)


def _remove(watch: SourceWatch, actor: Actor, reason: str) -> None:
    watches.remove_watch(watch, actor=actor, reason=reason)


WATCH_ACTS = (
    Act(
        name="check",
        label=gettext_lazy("Check now"),
        action_label=gettext_lazy("Check selected watches now"),
        effect=gettext_lazy(
            "The repository is asked now for its newest commit, instead of at the next "
            "due time."
        ),
        permission=MAY_CHANGE,
        told=says(gettext_lazy("The repository is being asked.")),
        call=_check,
        why_not=_why_not_active,
        needs_reason=False,
    ),
    Act(
        name="pause",
        label=gettext_lazy("Pause"),
        action_label=gettext_lazy("Pause selected watches"),
        effect=gettext_lazy(
            "The repository is not asked any more until somebody resumes the watch."
        ),
        permission=MAY_CHANGE,
        told=says(gettext_lazy("The watch is paused.")),
        call=_pause,
        why_not=_why_not_active,
    ),
    Act(
        name="resume",
        label=gettext_lazy("Resume"),
        action_label=gettext_lazy("Resume selected watches"),
        effect=gettext_lazy(
            "The repository is asked again, at once. The failures so far are forgotten."
        ),
        permission=MAY_CHANGE,
        told=says(gettext_lazy("The watch is active again.")),
        call=_resume,
        why_not=_why_not_resume,
        needs_reason=False,
    ),
    Act(
        name="remove",
        label=gettext_lazy("Remove"),
        action_label=gettext_lazy("Remove selected watches"),
        effect=gettext_lazy(
            "The watch is gone, with all that it has proposed. The agent stays as it is."
        ),
        permission="buildqueue.delete_sourcewatch",
        told=says(gettext_lazy("The watch is removed.")),
        call=_remove,
        why_not=_always,
        removes=True,
    ),
)


def _why_not_decide(proposal: Proposal) -> str:
    if proposal.status != ProposalStatus.OPEN:
        status = ProposalStatus(proposal.status).label
        told = {"status": status, "by": proposal.decided_by or _("the system")}
        return _("it is %(status)s, decided by %(by)s") % told
    return _("its agent was deleted") if proposal.agent.deleted_at else ""


def _accept(proposal: Proposal, actor: Actor, reason: str) -> object:
    return proposals.accept(proposal, actor=actor)


def _dismiss(proposal: Proposal, actor: Actor, reason: str) -> object:
    return proposals.dismiss(proposal, actor=actor)


PROPOSAL_ACTS = (
    Act(
        name="accept",
        label=gettext_lazy("Accept"),
        action_label=gettext_lazy("Accept selected proposals"),
        effect=gettext_lazy(
            "The commit is built and deployed as a new version of the agent. The one "
            "that runs answers until the new one does."
        ),
        permission=MAY_DECIDE,
        told=says(gettext_lazy("Accepted; the update is queued.")),
        call=_accept,
        why_not=_why_not_decide,
        needs_reason=False,
    ),
    Act(
        name="dismiss",
        label=gettext_lazy("Dismiss"),
        action_label=gettext_lazy("Dismiss selected proposals"),
        effect=gettext_lazy(
            "Nothing is built. This commit is not proposed again; a newer one is."
        ),
        permission=MAY_DECIDE,
        told=says(gettext_lazy("Dismissed; this commit is not proposed again.")),
        call=_dismiss,
        why_not=_why_not_decide,
        needs_reason=False,
    ),
)
