"""Two jobs that wait for a person: one asks something, one wants to do something outside.

A campaign's mails: some steps are done, one mail is sent, one waits for a yes, and of one
nobody knows whether it went out.
"""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from buildqueue.models import BuildJob, Checkpoint, JobProgress
from buildqueue.queue import questions
from buildqueue.queue.questions import Field
from buildqueue.states import ActionStatus
from tests.factories import make_job
from tests.support.decisions import make_action

from . import shown

CAMPAIGN = "campaign"
MAIL = {
    "to": "anna@example.org",
    "subject": "Your invoice for November",
    "body": "Dear Anna,\nplease find the invoice attached.",
    "attachments": [{"name": "2042.pdf", "bytes": 48211}],
}


def asks() -> BuildJob:
    """Make the job that asks."""
    job = make_job(
        "waiting_input",
        queue="mail",
        payload=shown.payload_of(CAMPAIGN, list="november"),
        attempt=1,
        created_at=shown.ago(minutes=11),
        first_started_at=shown.ago(minutes=11),
    )
    fields = {
        "sender": Field(
            type="choice", label="Sender", choices=("billing", "sales", "support")
        ),
        "batch": Field(
            type="integer", label="Mails at once", help="The provider allows 500."
        ),
        "test_first": Field(type="boolean", label="Send one to yourself first"),
        "greeting": Field(label="Greeting", required=False),
    }
    asked = questions.stored("How shall the 1 240 mails of November go out?", fields)
    JobProgress.objects.create(
        job=job, waits_for=asked, done=310, total=1240, message="addresses checked"
    )
    Checkpoint.objects.create(job=job, step="read the list", attempt=1)
    return job


def waits_for_approval() -> BuildJob:
    """Make the job that wants to do something outside."""
    job = make_job(
        "waiting_approval",
        queue="mail",
        payload=shown.payload_of("send_invoice", order=2042),
        attempt=2,
        created_at=shown.ago(minutes=6),
        first_started_at=shown.ago(minutes=6),
    )
    JobProgress.objects.create(
        job=job,
        waits_for={"for": "approval"},
        state={"order": 2042, "api_token": "s3cr3t"},
        plan=["render the invoice", "mail it", "mark the order"],
    )
    for number, step in enumerate(("read the order", "render the invoice")):
        Checkpoint.objects.create(
            job=job,
            step=step,
            attempt=1,
            result={"pages": number + 1},
            finished_at=shown.ago(minutes=5, seconds=40 - number),
        )
    make_action(
        job,
        key="mail",
        title="Mail the invoice to Anna",
        content=MAIL,
        expires_at=timezone.now() + timedelta(days=3),
        created_at=shown.ago(minutes=5),
    )
    make_action(
        job,
        ActionStatus.OUTCOME_UNKNOWN,
        key="charge",
        title="Charge the card",
        content={"order": 2042, "amount": "49.00", "currency": "EUR"},
        needs_review=False,
        error_msg="its run ended while it was under way",
        started_at=shown.ago(minutes=5),
        ended_at=shown.ago(minutes=4),
        created_at=shown.ago(minutes=6),
    )
    make_action(
        job,
        ActionStatus.SUCCEEDED,
        key="archive",
        title="Archive the invoice",
        content={"file": "2042.pdf"},
        receipt={"object": "invoices/2042.pdf", "etag": "9f2b41c7"},
        decided_by="operator",
        decided_at=shown.ago(minutes=5),
        created_at=shown.ago(minutes=6),
    )
    for number in range(3):
        make_job(
            ("done", "in_progress", "failed")[number],
            parent=job,
            payload=shown.payload_of("render"),
        )
    return job
