"""Which verbs of the queue does the control room offer on jobs, in which words?

`queue.verbs.VERBS` is the list: name, function, transition and permission come from
there; only the words are added, and which of them demand a reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import BuildJob
from ..queue import verbs
from ..queue.outcomes import Actor
from ..states import JobStatus, Transition
from .acts import Act


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """How a verb is told."""

    label: Any
    action_label: Any
    effect: Any
    needs_reason: bool = True


WORDS = {
    "retry": Words(
        label=gettext_lazy("Retry"),
        action_label=gettext_lazy("Retry selected jobs"),
        effect=gettext_lazy(
            "The job runs again. Its history is kept, and it gets one more try than it "
            "has used."
        ),
        needs_reason=False,
    ),
    "cancel": Words(
        label=gettext_lazy("Cancel"),
        action_label=gettext_lazy("Cancel selected jobs"),
        effect=gettext_lazy(
            "The job is stopped for good. A running process is ended, and what it "
            "reports afterwards is ignored."
        ),
    ),
    "release": Words(
        label=gettext_lazy("Release"),
        action_label=gettext_lazy("Release selected jobs from their worker"),
        effect=gettext_lazy(
            "The job is taken from its worker and waits to run again. Its process is "
            "ended; nothing counts against its allowance."
        ),
    ),
    "force_fail": Words(
        label=gettext_lazy("Force-fail"),
        action_label=gettext_lazy("Declare selected jobs failed"),
        effect=gettext_lazy(
            "The job is declared failed, with your reason as its error. A running "
            "process is ended."
        ),
    ),
}


def _caller(verb: verbs.Verb) -> Callable[[BuildJob, Actor, str], object]:
    return lambda job, actor, reason: verb(job.pk, actor=actor, reason=reason)


def _why_not(transition: Transition) -> Callable[[BuildJob], str]:
    sources = [status for status in JobStatus if status in transition.sources]

    def why_not(job: BuildJob) -> str:
        if transition.allowed_from(job.status):
            return ""
        return _("it is %(status)s; possible from: %(sources)s") % {
            "status": JobStatus(job.status).label,
            "sources": ", ".join(str(status.label) for status in sources),
        }

    return why_not


def _act(name: str, words: Words) -> Act:
    verb, transition, permission = verbs.VERBS[name]
    return Act(
        name=name,
        label=words.label,
        action_label=words.action_label,
        effect=words.effect,
        needs_reason=words.needs_reason,
        permission=permission,
        leads_to=min(transition.targets),
        call=_caller(verb),
        why_not=_why_not(transition),
    )


JOB_ACTS = tuple(_act(name, words) for name, words in WORDS.items())
