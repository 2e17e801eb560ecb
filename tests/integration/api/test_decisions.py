"""Can an owner hold a job back, answer it, and decide on what it wants to do outside?"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser
from django.test import Client
from django.utils import timezone

from buildqueue.models import BuildJob, JobAction, JobEvent, JobProgress
from buildqueue.queue.questions import Field
from buildqueue.states import ActionStatus, JobStatus

from ...factories import make_job, make_user
from ...support.decisions import make_action, make_question
from .conftest import assert_problem

pytestmark = pytest.mark.django_db
GIVEN = {"copies": 2, "urgent": False, "color": "blue"}


def post(client: Client, address: str, body: Any = None) -> Any:
    text = body if isinstance(body, str) else json.dumps(body or {})
    return client.post(address, text, content_type="application/json")


def make_mine(owner: AbstractUser, status: str = "pending") -> BuildJob:
    return make_job(status, owner_id=str(owner.pk))


def make_my_action(owner: AbstractUser, **values: Any) -> JobAction:
    return make_action(make_mine(owner, JobStatus.WAITING_APPROVAL), **values)


def decide(client: Client, verb: str, action: JobAction, **more: Any) -> Any:
    body = {"content_hash": action.content_hash} | more
    return post(client, f"/api/actions/{action.pk}/{verb}", body)


def test_a_job_is_held_back_and_goes_on(owner: AbstractUser, as_owner: Client) -> None:
    job = make_mine(owner, "in_progress")

    held = post(as_owner, f"/api/jobs/{job.pk}/pause", {"reason": "lunch"})
    going = post(as_owner, held.json()["links"]["resume"])

    assert (held.status_code, held.json()["status"]) == (200, "paused")
    assert (going.status_code, going.json()["status"]) == (202, "pending")
    assert going.headers["Location"] == f"/api/jobs/{job.pk}"
    assert JobEvent.objects.get(job=job, kind="pause").reason == "lunch"


def test_a_job_that_asks_tells_its_question_and_where_to_answer(
    owner: AbstractUser, as_owner: Client
) -> None:
    fields = {"color": Field(type="choice", choices=("red", "blue"), help="Of ink.")}
    job = make_question("Which color?", fields, owner_id=str(owner.pk))

    body = as_owner.get(f"/api/jobs/{job.pk}").json()

    asked = JobProgress.objects.get(pk=job.pk).waits_for
    assert body["question"] == {
        "key": asked["key"],
        "question": "Which color?",
        "fields": [
            {
                "name": "color",
                "type": "choice",
                "label": "",
                "help": "Of ink.",
                "required": True,
                "choices": ["red", "blue"],
            }
        ],
    }
    assert body["links"]["answer"] == f"/api/jobs/{job.pk}/answer"


def test_an_answer_lets_the_job_go_on(owner: AbstractUser, as_owner: Client) -> None:
    job = make_question(owner_id=str(owner.pk))

    response = post(as_owner, f"/api/jobs/{job.pk}/answer", {"values": GIVEN})

    assert response.status_code == 202, response.text
    assert response.json()["status"] == "pending"
    assert response.json()["question"] is None
    assert "answer" not in response.json()["links"]
    assert JobProgress.objects.get(pk=job.pk).answers == GIVEN


def test_an_answer_that_does_not_fit_names_each_fault(
    owner: AbstractUser, as_owner: Client
) -> None:
    job = make_question(owner_id=str(owner.pk))
    values = {"copies": "many", "urgent": True, "color": "green", "more": 1}

    response = post(as_owner, f"/api/jobs/{job.pk}/answer", {"values": values})

    problem = assert_problem(response, 422, "answer_does_not_fit")
    assert set(problem["fields"]) == {"copies", "color", "more"}
    assert JobProgress.objects.get(pk=job.pk).answers == {}


def test_a_job_is_answered_once(owner: AbstractUser, as_owner: Client) -> None:
    job = make_question(owner_id=str(owner.pk))
    post(as_owner, f"/api/jobs/{job.pk}/answer", {"values": GIVEN})

    again = post(as_owner, f"/api/jobs/{job.pk}/answer", {"values": GIVEN})

    problem = assert_problem(again, 409, "invalid_transition")
    assert (problem["found"], problem["verb"]) == ("pending", "answer")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ("{}", 422, "missing_field"),
        ('{"values": [1]}', 422, "invalid_field"),
        ('{"values": {}, "reason": 1}', 422, "invalid_field"),
        ('{"vales": {}}', 422, "unknown_field"),
        ("{", 400, "malformed_json"),
        ('{"values": "' + "x" * 3_000_000, 413, "body_too_large"),
    ],
)
def test_a_bad_body_answers_nothing(
    body: str, status: int, code: str, owner: AbstractUser, as_owner: Client
) -> None:
    job = make_question(owner_id=str(owner.pk))

    response = post(as_owner, f"/api/jobs/{job.pk}/answer", body)

    assert_problem(response, status, code)
    job.refresh_from_db()
    assert job.status == "waiting_input"


def test_an_answer_is_json(owner: AbstractUser, as_owner: Client) -> None:
    job = make_question(owner_id=str(owner.pk))

    response = as_owner.post(f"/api/jobs/{job.pk}/answer", {"values": "x"})

    assert_problem(response, 415, "unsupported_media_type")


def test_the_actions_of_a_job_are_told_in_order(
    owner: AbstractUser, as_owner: Client
) -> None:
    first = make_my_action(owner, title="first")
    second = make_action(first.job, ActionStatus.SUCCEEDED, receipt={"id": "m-1"})
    address = as_owner.get(f"/api/jobs/{first.job_id}").json()["links"]["actions"]

    told = as_owner.get(address).json()["actions"]

    assert [action["id"] for action in told] == [str(first.pk), str(second.pk)]
    assert told[0]["content"] == first.content
    assert told[0]["content_hash"] == first.content_hash
    assert told[0]["links"]["approve"] == f"/api/actions/{first.pk}/approve"
    assert told[1]["receipt"] == {"id": "m-1"}
    assert set(told[1]["links"]) == {"job"}


def test_an_owner_approves_and_the_job_goes_on(
    owner: AbstractUser, as_owner: Client
) -> None:
    action = make_my_action(owner)

    response = decide(as_owner, "approve", action)

    assert response.status_code == 200, response.text
    assert response.json()["status"] == "approved"
    assert response.json()["decided_by"] == "owner"
    assert BuildJob.objects.get(pk=action.job_id).status == "pending"


def test_an_owner_denies_with_a_reason(owner: AbstractUser, as_owner: Client) -> None:
    action = make_my_action(owner)

    unsaid = decide(as_owner, "deny", action)
    said = decide(as_owner, "deny", action, reason="wrong Anna")

    assert_problem(unsaid, 400, "reason_required")
    assert said.json()["status"] == "denied"
    assert said.json()["reason"] == "wrong Anna"


@pytest.mark.parametrize("verb", ["approve", "deny"])
def test_what_cannot_be_decided_is_refused_with_a_code(
    verb: str, owner: AbstractUser, as_owner: Client
) -> None:
    action, decided = make_my_action(owner), make_my_action(owner, status="approved")
    late = make_my_action(owner, expires_at=timezone.now() - timedelta(minutes=1))

    def post_to(row: JobAction, **more: str) -> Any:
        return decide(as_owner, verb, row, reason="x", **more)

    assert_problem(post_to(action, content_hash="0" * 64), 409, "content_changed")
    assert_problem(post_to(decided), 409, "already_decided")
    assert_problem(post_to(late), 409, "action_expired")
    bare = post(as_owner, f"/api/actions/{action.pk}/{verb}", {"reason": "x"})
    assert_problem(bare, 422, "missing_field")
    typed = post(as_owner, f"/api/actions/{action.pk}/{verb}", {"content_hash": 1})
    assert_problem(typed, 422, "invalid_field")
    action.refresh_from_db()
    assert action.status == "awaiting_review"


def test_what_is_not_mine_is_told_as_what_is_not_there(owner: AbstractUser) -> None:
    action = make_my_action(owner)
    another = Client()
    another.force_login(make_user("another", "decide_jobaction", "view_payload"))
    absent = "00000000-0000-4000-8000-000000000000"

    theirs = decide(another, "approve", action)
    nowhere = post(another, f"/api/actions/{absent}/approve", {"content_hash": ""})

    assert_problem(theirs, 404, "action_not_found")
    assert_problem(nowhere, 404, "action_not_found")
    assert (
        theirs.json()["detail"].replace(str(action.pk), absent)
        == (nowhere.json()["detail"])
    )


@pytest.mark.parametrize(
    "missing", ["decide_jobaction", "view_jobaction", "view_payload"]
)
def test_who_decides_for_others_must_see_what_it_is(
    missing: str, owner: AbstractUser
) -> None:
    action = make_my_action(owner)
    needed = {"decide_jobaction", "view_jobaction", "view_payload", "view_buildjob"}
    client = Client()
    client.force_login(make_user("half", *sorted(needed - {missing})))

    problem = assert_problem(decide(client, "approve", action), 403, "forbidden")

    assert f"buildqueue.{missing}" in problem["detail"]


def test_content_is_told_to_owners_and_who_may_see_payloads(
    owner: AbstractUser,
) -> None:
    action = make_my_action(owner, status="succeeded", receipt={"id": "m-1"})
    blind, seeing = Client(), Client()
    sees = ("view_buildjob", "view_jobaction")
    blind.force_login(make_user("blind", *sees))
    seeing.force_login(make_user("seeing", *sees, "view_payload"))
    address = f"/api/jobs/{action.job_id}/actions"

    (hidden,) = blind.get(address).json()["actions"]
    (shown,) = seeing.get(address).json()["actions"]

    assert (hidden["content"], hidden["receipt"]) == (None, None)
    assert (shown["content"], shown["receipt"]) == (action.content, {"id": "m-1"})


def test_an_answer_names_the_question_that_was_read(
    owner: AbstractUser, as_owner: Client
) -> None:
    job = make_question(owner_id=str(owner.pk))
    address = f"/api/jobs/{job.pk}/answer"
    key = as_owner.get(f"/api/jobs/{job.pk}").json()["question"]["key"]

    stale = post(as_owner, address, {"values": GIVEN, "key": "of-yesterday"})
    assert_problem(stale, 409, "question_changed")
    odd = post(as_owner, address, {"values": GIVEN, "key": 5})
    assert_problem(odd, 422, "invalid_field")
    fitting = post(as_owner, address, {"values": GIVEN, "key": key})

    assert fitting.status_code == 202
