"""Which verbs of the queue does the control room offer on jobs, in which words?

`queue.verbs.VERBS` is the list: name, function, transition and permission come from
there; only the words are added, and which of them demand a reason. Verbs that ask for
more than a reason are in `jobasking`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import BuildJob
from ..queue import verbs
from ..queue.outcomes import Actor
from ..states import JobStatus
from .acts import Act, says


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """How a verb is told."""

    label: Any
    action_label: Any
    effect: Any
    told: Any
    needs_reason: bool = True


WORDS = {
    "retry": Words(
        label=gettext_lazy("Retry"),
        action_label=gettext_lazy("Retry selected jobs"),
        effect=gettext_lazy(
            "The job runs again. Its history is kept, and it gets one more try than it "
            "has used."
        ),
        told=gettext_lazy("The job runs again as soon as a worker is free."),
        needs_reason=False,
    ),
    "cancel": Words(
        label=gettext_lazy("Cancel"),
        action_label=gettext_lazy("Cancel selected jobs"),
        effect=gettext_lazy(
            "The job is stopped for good. A running process is ended, and what it "
            "reports afterwards is ignored."
        ),
        told=gettext_lazy("The job is cancelled."),
    ),
    "pause": Words(
        label=gettext_lazy("Pause"),
        action_label=gettext_lazy("Pause selected jobs"),
        effect=gettext_lazy(
            "The job is held back until somebody resumes it. A running process is ended; "
            "its finished steps are kept, and nothing counts against its allowance."
        ),
        told=gettext_lazy("The job is held back until somebody resumes it."),
    ),
    "resume": Words(
        label=gettext_lazy("Resume"),
        action_label=gettext_lazy("Resume selected jobs"),
        effect=gettext_lazy(
            "The job goes on where it was held back: it is due, or waits for what it "
            "waited for."
        ),
        told=gettext_lazy("The job goes on where it was."),
        needs_reason=False,
    ),
    "release": Words(
        label=gettext_lazy("Release"),
        action_label=gettext_lazy("Release selected jobs from their worker"),
        effect=gettext_lazy(
            "The job is taken from its worker and waits to run again. Its process is "
            "ended; nothing counts against its allowance."
        ),
        told=gettext_lazy("The job is taken from its worker and waits to run again."),
    ),
    "force_fail": Words(
        label=gettext_lazy("Force-fail"),
        action_label=gettext_lazy("Declare selected jobs failed"),
        effect=gettext_lazy(
            "The job is declared failed, with your reason as its error. A running "
            "process is ended."
        ),
        told=gettext_lazy("The job is declared failed."),
    ),
}


def _caller(verb: verbs.Verb) -> Callable[[BuildJob, Actor, str], object]:
    return lambda job, actor, reason: verb(job.pk, actor=actor, reason=reason)


def unless_in(sources: Collection[str]) -> Callable[[BuildJob], str]:
    """Return what says why a job that is in none of these statuses is left out."""
    named = [status for status in JobStatus if status in sources]

    def why_not(job: BuildJob) -> str:
        if job.status in sources:
            return ""
        return _("it is %(status)s; possible from: %(sources)s") % {
            "status": JobStatus(job.status).label,
            "sources": ", ".join(str(status.label) for status in named),
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
        leads_to=_only(transition.targets),
        call=_caller(verb),
        why_not=unless_in(transition.sources),
        told=says(words.told),
    )


def _only(targets: Collection[JobStatus]) -> str:
    return next(iter(targets)) if len(targets) == 1 else ""


JOB_ACTS = tuple(_act(name, words) for name, words in WORDS.items())
