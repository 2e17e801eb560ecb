"""What waits for a person? Questions, the quarantine, reviews, unknown outcomes, updates
to accept, and watches that were given up.

Each number is a link to exactly those rows, and costs the same however many there are:
partial indexes hold what waits, the quarantine is looked for among the latest failed
jobs alone, and watches are few.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import ngettext

from ..models import BuildJob, JobAction, Proposal, SourceWatch
from ..queue import database, stats
from ..states import ActionStatus, JobStatus
from . import display
from .base import ReadOnlyAdmin
from .proposals import FOR_PEOPLE
from .watches import GIVEN_UP

EXHAUSTED = "max_attempts_exhausted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How many of one sort wait for a person."""

    title: str
    count: int
    number: str
    address: str


Sort = tuple[str, int, str, dict[str, str]]  # title, count, model, query of its list


def for_you(
    admin: ReadOnlyAdmin, request: HttpRequest, questions: int
) -> list[Waiting]:
    """Return what waits for a person; the number of questions is known already."""
    question, lost = _of_jobs(questions)
    sorts = (question, *_of_actions(), lost, *_of_watches())
    return [_waiting(admin, request, *sort) for sort in sorts]


def _waiting(
    admin: ReadOnlyAdmin,
    request: HttpRequest,
    title: str,
    count: int,
    model: str,
    query: dict[str, str],
) -> Waiting:
    listed = f"{admin.admin_url(f'{model}_changelist')}?{urlencode(query)}"
    allowed = request.user.has_perm(f"buildqueue.view_{model}")
    return Waiting(
        title=title,
        count=count,
        number=display.capped(count, stats.COUNT_CAP),
        address=listed if allowed else "",
    )


def _of_jobs(questions: int) -> list[Sort]:
    lost = _quarantined()
    to_answer = ngettext("question to answer", "questions to answer", questions)
    to_retry = ngettext("job in quarantine", "jobs in quarantine", lost)
    gone = {"status": JobStatus.FAILED.value, "q": f"code:{EXHAUSTED}"}
    return [
        (to_answer, questions, "buildjob", {"status": JobStatus.WAITING_INPUT.value}),
        (to_retry, lost, "buildjob", gone),
    ]


def _of_actions() -> list[Sort]:
    review, unknown = ActionStatus.AWAITING_REVIEW, ActionStatus.OUTCOME_UNKNOWN
    reviews, unknowns = _actions(review), _actions(unknown)
    to_review = ngettext("action to review", "actions to review", reviews)
    to_settle = ngettext("outcome to settle", "outcomes to settle", unknowns)
    return [
        (to_review, reviews, "jobaction", {"status": review.value}),
        (to_settle, unknowns, "jobaction", {"status": unknown.value}),
    ]


def _of_watches() -> list[Sort]:
    updates = _capped(Proposal.objects.using(database.alias()).filter(FOR_PEOPLE))
    given_up = _capped(SourceWatch.objects.using(database.alias()).filter(GIVEN_UP))
    to_accept = ngettext("update to accept", "updates to accept", updates)
    to_resume = ngettext("watch given up", "watches given up", given_up)
    return [
        (to_accept, updates, "proposal", {}),
        (to_resume, given_up, "sourcewatch", {"status": "given_up"}),
    ]


def _actions(status: ActionStatus) -> int:
    return _capped(JobAction.objects.using(database.alias()).filter(status=status))


def _capped(rows: QuerySet[Any]) -> int:
    return rows.order_by().values("pk")[: stats.COUNT_CAP].count()


def _quarantined() -> int:
    failed = BuildJob.objects.using(database.alias()).filter(status=JobStatus.FAILED)
    latest = failed.order_by("-created_at", "-id")[: stats.COUNT_CAP]
    found = latest.aggregate(n=Count("pk", filter=Q(error_code=EXHAUSTED)))
    return int(found["n"])
