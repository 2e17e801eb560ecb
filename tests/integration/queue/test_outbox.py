"""Is a notice written with what it tells, once for each who wants it, without secrets?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from buildqueue import states
from buildqueue.destinations import NoticeEvent
from buildqueue.models import BuildJob, JobAction, Notice
from buildqueue.queue import outbox, questions
from buildqueue.queue.outcomes import Actor
from buildqueue.queue.transitions import Change
from buildqueue.states import JobStatus
from tests.factories import make_job

ALL = {"name": "all", "events": ["*"], "email": ["all@example.org"]}
FAILURES = {"name": "failures", "events": ["job.failed"], "email": ["f@example.org"]}


@pytest.fixture(autouse=True)
def destinations(db: None) -> Iterator[None]:
    """Have one that wants everything, and one that wants failures."""
    with override_settings(BUILDQUEUE={"NOTICES": [ALL, FAILURES]}):
        yield


def ended(status: str, **values: Any) -> BuildJob:
    return make_job(status, attempt=2, **values)


def change_to(status: JobStatus, reason: str = "") -> Change:
    transition = {
        JobStatus.DONE: states.FINISH,
        JobStatus.FAILED: states.FAIL,
        JobStatus.CANCELLED: states.CANCEL,
    }.get(status, states.RELEASE)
    target = status if status in states.FINAL else JobStatus.PENDING
    actor = Actor(label="anna", id="7")
    return Change(transition=transition, target=target, actor=actor, reason=reason)


def told() -> list[tuple[str, str]]:
    return list(Notice.objects.order_by("event", "destination").values_list(*WHAT))


WHAT = ("event", "destination")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (JobStatus.DONE, [("job.done", "all")]),
        (JobStatus.FAILED, [("job.failed", "all"), ("job.failed", "failures")]),
        (JobStatus.CANCELLED, [("job.cancelled", "all")]),
        (JobStatus.PENDING, []),
    ],
)
def test_an_end_is_told_to_each_who_wants_it_and_told_once(
    status: JobStatus, expected: list[tuple[str, str]]
) -> None:
    job = ended(status)

    for _ in range(2):
        outbox.tell_change(job, change_to(status))

    assert told() == expected


def test_what_a_final_hook_made_of_it_is_told_not_what_was_meant() -> None:
    outbox.tell_change(ended("failed"), change_to(JobStatus.DONE))

    assert {event for event, _ in told()} == {"job.failed"}


def test_another_attempt_that_fails_is_told_again() -> None:
    job = ended("failed")
    outbox.tell_change(job, change_to(JobStatus.FAILED))

    job.attempt = 3
    outbox.tell_change(job, change_to(JobStatus.FAILED))

    assert Notice.objects.filter(destination="all").count() == 2


def test_done_is_told_again_when_its_result_was_missing_and_it_is_done_anew() -> None:
    job = ended("done")
    outbox.tell_change(job, change_to(JobStatus.DONE))

    job.attempt = 3
    for _ in range(2):
        outbox.tell_change(job, change_to(JobStatus.DONE))

    assert told() == [("job.done", "all")] * 2


def test_the_same_question_is_told_once_an_attempt() -> None:
    job = make_job("waiting_input", attempt=1)
    asked = questions.stored("Which code?", {"code": questions.Field()})

    for attempt in (1, 1, 2, 2):
        job.attempt = attempt
        outbox.tell_question(job, asked)

    assert told() == [("input.asked", "all")] * 2


def test_a_notice_says_what_happened_and_nothing_secret() -> None:
    job = ended(
        "failed",
        payload={"kind": "probe", "label": "hidden-payload"},
        result={"x": "hidden-result"},
        error_code="told_to",
        error_msg="it broke\x01",
        owner_id="7",
    )

    outbox.tell_change(job, change_to(JobStatus.FAILED, "because"))

    body = Notice.objects.filter(destination="all").get().body
    assert job.completed_at is not None
    assert body["type"] == "job.failed"
    assert body["timestamp"] == job.completed_at.isoformat()
    assert body["data"] | {} == body["data"]
    assert body["data"]["job"] == str(job.pk)
    assert body["data"]["error"] == {"code": "told_to", "message": "it broke\x01"}
    wanted = {"kind": "probe", "status": "failed", "owner": "7", "attempt": 2}
    assert (
        body["data"].items() >= (wanted | {"by": "anna", "reason": "because"}).items()
    )
    assert "hidden" not in json.dumps(body)


def test_a_changed_question_is_a_new_notice_and_the_same_one_is_not() -> None:
    job = make_job("waiting_input")
    first = questions.stored("Which?", {"name": questions.Field(label="Its name")})
    second = questions.stored("Which now?", {"name": questions.Field()})

    for asked in (first, first, second):
        outbox.tell_question(job, asked)

    bodies = list(Notice.objects.order_by("created_at").values_list("body", flat=True))
    assert [b["data"]["question"]["text"] for b in bodies] == ["Which?", "Which now?"]
    [field] = bodies[0]["data"]["question"]["fields"]
    assert (field["name"], field["label"], field["type"]) == (
        "name",
        "Its name",
        "text",
    )


def test_a_wait_for_something_else_asks_nobody_anything() -> None:
    for waits_for in ("children", "approval"):
        outbox.tell_question(make_job("waiting_children"), {"for": waits_for})

    assert told() == []


def _action(job: BuildJob, **values: Any) -> JobAction:
    return JobAction.objects.create(
        job=job,
        key="mail",
        title="Mail to the customer",
        content={"to": "hidden@example.org"},
        content_hash="x",
        status=states.ActionStatus.AWAITING_REVIEW,
        attempt=1,
        **values,
    )


def test_an_action_is_told_once_and_again_when_it_is_asked_anew() -> None:
    job = make_job("waiting_approval")
    action = _action(job, expires_at=timezone.now() + timedelta(minutes=30))

    for _ in range(2):
        outbox.tell_action(job, action, NoticeEvent.APPROVAL_ASKED)
    assert Notice.objects.count() == 1
    action.expires_at = timezone.now() + timedelta(minutes=60)
    outbox.tell_action(job, action, NoticeEvent.APPROVAL_ASKED)

    assert Notice.objects.count() == 2
    body = Notice.objects.latest("created_at").body
    assert body["data"]["action"]["title"] == "Mail to the customer"
    assert "hidden" not in json.dumps(body)


def test_an_unknown_outcome_is_told_once_an_attempt() -> None:
    job = make_job("failed", attempt=1)
    action = _action(job)

    for attempt in (1, 1, 2):
        job.attempt = attempt
        outbox.tell_action(job, action, NoticeEvent.OUTCOME_UNKNOWN)

    assert told() == [("action.outcome_unknown", "all")] * 2


def test_what_nobody_wants_costs_no_statement() -> None:
    job, action = ended("done"), _action(make_job("waiting_approval"))
    asked = questions.stored("Which?", {"name": questions.Field()})

    with (
        override_settings(BUILDQUEUE={"NOTICES": [FAILURES]}),
        CaptureQueriesContext(connection) as captured,
    ):
        outbox.tell_change(job, change_to(JobStatus.DONE))
        outbox.tell_question(job, asked)
        outbox.tell_action(job, action, NoticeEvent.APPROVAL_ASKED)

    assert len(captured) == 0
    assert told() == []


def test_what_many_want_costs_one_statement() -> None:
    job = ended("failed")

    with CaptureQueriesContext(connection) as captured, transaction.atomic():
        outbox.tell_change(job, change_to(JobStatus.FAILED))

    inserts = [q for q in captured.captured_queries if "INSERT" in q["sql"]]
    assert len(inserts) == 1
    assert len(told()) == 2


def test_a_notice_goes_with_the_transaction_of_what_it_tells() -> None:
    job = ended("done")

    with transaction.atomic():
        outbox.tell_change(job, change_to(JobStatus.DONE))
        assert told() == [("job.done", "all")]
        transaction.set_rollback(True)

    assert told() == []
