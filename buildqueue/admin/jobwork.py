"""How far is a job, what does it ask, and what does it want to do outside?

The sections of a job's page between its facts and its log. One query a table; what a
reader may not see is not read, and each list is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import BuildJob, Checkpoint, JobAction, JobProgress
from ..queue import database
from ..states import JobStatus
from . import answering, confirming
from .actions import PEOPLE_FIRST, JobActionAdmin
from .acts import Button
from .jobasking import ANSWER

if TYPE_CHECKING:
    from .jobs import BuildJobAdmin

MOST_STEPS = 200
MOST_ACTIONS = 50
WAIT_WORDS = {
    "input": gettext_lazy("a person's answer"),
    "approval": gettext_lazy("a person's decision"),
    "children": gettext_lazy("its children"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAction:
    """An action, its page, and what the reader may decide now."""

    action: JobAction
    address: str
    buttons: list[Button]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """One document of a job's progress that holds something."""

    title: str
    value: Any


def context_of(
    admin: BuildJobAdmin, request: HttpRequest, job: BuildJob, buttons: list[Button]
) -> dict[str, Any]:
    """Return what the templates of these sections show."""
    progress: JobProgress | None = getattr(job, "progress", None)
    may_actions = request.user.has_perm("buildqueue.view_jobaction")
    actions = _actions(admin, request, job) if may_actions else []
    asks = job.status == JobStatus.WAITING_INPUT
    steps = Checkpoint.objects.using(database.alias()).filter(job_id=job.pk)
    return {
        "progress": progress,
        "asked": answering.asked_by(job) if asks else {},
        "asked_fields": _asked_fields(job) if asks else [],
        "answer": next((b for b in buttons if b.act is ANSWER and not b.why_not), None),
        "goes_back_to": _goes_back_to(job, progress),
        "remembered": _remembered(progress),
        "steps": list(steps.order_by("id")[:MOST_STEPS]),
        "may_actions": may_actions,
        "actions": actions,
        "acted_now": [each.action for each in actions] if _by_action(job) else [],
        "actions_url": f"{admin.admin_url('jobaction_changelist')}?status=all&job={job.pk}",
        "most_actions": MOST_ACTIONS,
    }


def _by_action(job: BuildJob) -> bool:
    """Tell whether an action is why it ended; what became of it may be known by now."""
    code = job.error_code or ""
    return code == "outcome_unknown" or code.startswith("action_")


def _asked_fields(job: BuildJob) -> list[Any]:
    return list(answering.fields_of([job]).values())


def _goes_back_to(job: BuildJob, progress: JobProgress | None) -> str:
    """Return what a paused job waits for again when it is resumed."""
    waits = progress.waits_for if progress else None
    if job.status != JobStatus.PAUSED or not isinstance(waits, Mapping):
        return ""
    return str(WAIT_WORDS.get(str(waits.get("for")), ""))


def _remembered(progress: JobProgress | None) -> list[Remembered]:
    if progress is None:
        return []
    every = (
        (_("Plan"), progress.plan),
        (_("State"), progress.state),
        (_("Evidence"), progress.evidence),
        (_("Artifacts"), progress.artifacts),
        (_("Answers"), progress.answers),
    )
    return [Remembered(title=title, value=value) for title, value in every if value]


def _actions(
    admin: BuildJobAdmin, request: HttpRequest, job: BuildJob
) -> list[ShownAction]:
    deciding = JobActionAdmin(JobAction, admin.admin_site)
    rows = JobAction.objects.using(database.alias()).filter(job_id=job.pk)
    shown = []
    for action in rows.order_by(PEOPLE_FIRST, "created_at", "id")[:MOST_ACTIONS]:
        action.job = job
        buttons = deciding.buttons(request, action, confirming.HOME_PAGE)
        shown.append(
            ShownAction(
                action=action,
                address=deciding.page_of(action, request),
                buttons=[button for button in buttons if not button.why_not],
            )
        )
    return shown
