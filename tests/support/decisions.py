"""How does a test get a job that asks something, or wants to do something outside?"""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from django.utils import timezone

from buildqueue.models import BuildJob, JobAction, JobProgress
from buildqueue.queue import actions, questions
from buildqueue.queue.outcomes import WaitForInput
from buildqueue.queue.questions import Field
from buildqueue.states import ActionStatus, JobStatus
from tests.factories import make_job

from .turns import report

EVERY_TYPE = {
    "note": Field(type="text", label="What to write", required=False),
    "copies": Field(type="integer", help="How many are printed."),
    "weight": Field(type="number", required=False),
    "urgent": Field(type="boolean"),
    "color": Field(type="choice", choices=("red", "blue")),
}


def make_question(
    question: str = "How shall it be printed?",
    fields: dict[str, Field] | None = None,
    **values: Any,
) -> BuildJob:
    """Make a job that waits for an answer."""
    job = make_job(JobStatus.WAITING_INPUT, **values)
    asked = questions.stored(question, EVERY_TYPE if fields is None else fields)
    JobProgress.objects.create(job=job, waits_for=asked)
    return job


def ask_how_many(job: BuildJob) -> None:
    """Have a running job ask for a number, as its handler would."""
    report(job, WaitForInput(question="How many?", fields={"n": Field(type="integer")}))


def make_action(
    job: BuildJob | None = None,
    status: str = ActionStatus.AWAITING_REVIEW,
    **values: Any,
) -> JobAction:
    """Make an action of a job that waits for its review, unless it is another's."""
    if job is None:
        job = make_job(JobStatus.WAITING_APPROVAL)
        JobProgress.objects.create(job=job, waits_for={"for": "approval"})
    values.setdefault("content", {"to": "anna@example.org", "api_token": "hunter2"})
    values.setdefault("key", f"mail-{uuid.uuid4().hex[:8]}")
    values.setdefault("title", "Mail to Anna")
    values.setdefault("expires_at", timezone.now() + timedelta(days=1))
    if status == ActionStatus.EXECUTING:
        values.setdefault("lease_id", job.lease_id or uuid.uuid4())
        values.setdefault("started_at", timezone.now())
    action = JobAction.objects.create(
        job=job,
        status=status,
        attempt=job.attempt,
        content_hash=actions.hash_of(values["content"]),
        **values,
    )
    action.refresh_from_db()
    return action
