"""May an operator with the permissions that the page names do what it says, and no less?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import Client

from buildqueue.models import JobProgress
from buildqueue.states import ActionStatus, JobStatus
from tests.factories import make_job, make_user
from tests.support.decisions import make_action, make_question

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "ask-a-person.md").read_text()
ADMIN = "/admin/buildqueue"
DECISION = {
    "approve": ("approve actions", ActionStatus.AWAITING_REVIEW),
    "deny": ("deny actions", ActionStatus.AWAITING_REVIEW),
    "happened": (
        "settle unknown outcomes, and retry the job",
        ActionStatus.OUTCOME_UNKNOWN,
    ),
}


def _permissions(to: str) -> list[str]:
    [cell] = re.findall(rf"^\| {to} \| (.+) \|$", PAGE, re.M)
    return re.findall(r"`(\w+)`", cell)


def _operator(*permissions: str) -> Client:
    client = Client()
    name = "-".join(permissions)
    client.force_login(make_user(name, *permissions, is_staff=True))
    return client


def _answers(operator: Client) -> bool:
    job = make_question()
    key = str(JobProgress.objects.get(pk=job.pk).waits_for["key"])
    asked = {"id": str(job.pk), "from": "page", "seen": key}
    given = {"given-copies": "2", "given-urgent": "false", "given-color": "blue"}
    page = operator.get(f"{ADMIN}/buildjob/{job.pk}/change/")
    operator.post(f"{ADMIN}/buildjob/acts/answer/", asked | given)
    job.refresh_from_db()
    shown = "How shall it be printed?" in page.content.decode()
    return shown and job.status == JobStatus.PENDING


def _decides(operator: Client, act: str) -> bool:
    """Tell whether the operator finds the action on its job's page, and decides it."""
    before = DECISION[act][1]
    job = make_job(JobStatus.FAILED, error_code="outcome_unknown")
    action = make_action(job if act == "happened" else None, before)
    asked = {"id": str(action.pk), "from": "page", "seen": action.content_hash}
    page = operator.get(f"{ADMIN}/buildjob/{action.job_id}/change/")
    operator.post(f"{ADMIN}/jobaction/acts/{act}/", asked | {"reason": "so it is"})
    action.refresh_from_db()
    return f"acts/{act}/" in page.content.decode() and action.status != before


@pytest.mark.django_db
def test_who_has_what_the_page_names_can_answer_and_nobody_with_less() -> None:
    named = _permissions("answer questions")

    assert _answers(_operator(*named))
    for one in named:
        assert not _answers(_operator(*(set(named) - {one}))), one


@pytest.mark.django_db
@pytest.mark.parametrize("act", DECISION)
def test_who_has_what_the_page_names_can_decide_and_nobody_with_less(act: str) -> None:
    named = [p for p in _permissions(DECISION[act][0]) if p != "retry_buildjob"]

    assert _decides(_operator(*named), act)
    for one in named:
        assert not _decides(_operator(*(set(named) - {one})), act), one
