"""What waits for a person? Questions, reviews, unknown outcomes, and the quarantine.

Each number is a link to exactly those rows, and costs the same however many there are:
partial indexes hold what waits, and the quarantine is looked for among the latest failed
jobs alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import Count, Q
from django.http import HttpRequest
from django.utils.translation import ngettext

from ..models import BuildJob, JobAction
from ..queue import database, stats
from ..states import ActionStatus, JobStatus
from . import display
from .base import ReadOnlyAdmin

EXHAUSTED = "max_attempts_exhausted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How many of one sort wait for a person."""

    title: str
    count: int
    number: str
    address: str


def for_you(
    admin: ReadOnlyAdmin, request: HttpRequest, questions: int
) -> list[Waiting]:
    """Return what waits for a person; the number of questions is known already."""
    of_jobs = ("buildjob", request.user.has_perm("buildqueue.view_buildjob"))
    of_actions = ("jobaction", request.user.has_perm("buildqueue.view_jobaction"))
    review, unknown = ActionStatus.AWAITING_REVIEW, ActionStatus.OUTCOME_UNKNOWN
    gone = {"status": JobStatus.FAILED, "q": f"code:{EXHAUSTED}"}
    reviews, unknowns, lost = _actions(review), _actions(unknown), _quarantined()
    to_answer = ngettext("question to answer", "questions to answer", questions)
    to_review = ngettext("action to review", "actions to review", reviews)
    to_settle = ngettext("outcome to settle", "outcomes to settle", unknowns)
    to_retry = ngettext("job in quarantine", "jobs in quarantine", lost)
    sorts = (
        (to_answer, questions, of_jobs, {"status": JobStatus.WAITING_INPUT}),
        (to_review, reviews, of_actions, {"status": review}),
        (to_settle, unknowns, of_actions, {"status": unknown}),
        (to_retry, lost, of_jobs, gone),
    )
    return [
        Waiting(
            title=title,
            count=count,
            number=display.capped(count, stats.COUNT_CAP),
            address=f"{admin.admin_url(f'{model}_changelist')}?{urlencode(query)}"
            if allowed
            else "",
        )
        for title, count, (model, allowed), query in sorts
    ]


def _actions(status: ActionStatus) -> int:
    rows = JobAction.objects.using(database.alias()).filter(status=status)
    return rows.order_by().values("pk")[: stats.COUNT_CAP].count()


def _quarantined() -> int:
    failed = BuildJob.objects.using(database.alias()).filter(status=JobStatus.FAILED)
    latest = failed.order_by("-created_at", "-id")[: stats.COUNT_CAP]
    found = latest.aggregate(n=Count("pk", filter=Q(error_code=EXHAUSTED)))
    return int(found["n"])
