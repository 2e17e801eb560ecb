"""What does a job's address tell, and when does it say "nothing new"?"""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser
from django.test import Client
from django.utils import timezone

from buildqueue.models import ApiToken, BuildJob, JobEvent
from buildqueue.queue import verbs
from buildqueue.queue.outcomes import SYSTEM
from buildqueue.states import FINAL, JobStatus

from ...factories import make_agent, make_build, make_job
from .conftest import assert_problem, token_client

pytestmark = pytest.mark.django_db


def make_mine(owner: AbstractUser, status: str = "pending", **values: Any) -> BuildJob:
    return make_job(status, owner_id=str(owner.pk), **values)


def add_event(job: BuildJob, kind: str, title: str, **values: Any) -> JobEvent:
    values = {"attempt": job.attempt, "run": job.lease_id} | values
    return JobEvent.objects.create(job=job, kind=kind, title=title, **values)


def test_a_job_tells_its_state(owner: AbstractUser, as_owner: Client) -> None:
    agent = make_agent(str(owner.pk))
    job = make_mine(
        owner, "failed", agent=agent, error_code="no_disk", error_msg="full"
    )
    build = make_build(agent, job=job)

    body = as_owner.get(f"/api/jobs/{job.pk}").json()

    assert body["id"] == str(job.pk)
    assert body["kind"] == "probe"
    assert body["status"] == "failed"
    assert body["target"] == {"type": "agent", "id": str(agent.pk)}
    assert body["error"] == {"code": "no_disk", "message": "full"}
    assert body["build_id"] == str(build.pk)
    assert body["links"]["build"] == f"/api/builds/{build.pk}"
    assert "payload" not in body


@pytest.mark.parametrize("status", JobStatus.values)
def test_a_job_links_the_verbs_that_its_status_allows(
    status: str, owner: AbstractUser, as_owner: Client
) -> None:
    job = make_mine(owner, status)

    links = as_owner.get(f"/api/jobs/{job.pk}").json()["links"]

    assert ("cancel" in links) == (status not in FINAL)
    assert ("retry" in links) == (status in ("failed", "cancelled"))
    assert ("pause" in links) == (status not in FINAL | {"paused"})
    assert ("resume" in links) == (status == "paused")
    assert ("answer" in links) == (status == "waiting_input")


@pytest.mark.parametrize("status", JobStatus.values)
def test_an_open_job_says_when_to_look_again(
    status: str, owner: AbstractUser, as_owner: Client
) -> None:
    job = make_mine(owner, status)

    response = as_owner.get(f"/api/jobs/{job.pk}")

    assert ("Retry-After" in response.headers) == (status not in FINAL)


@pytest.mark.parametrize(("minutes", "seconds"), [(60, 60), (-1, 2)])
def test_a_job_that_is_due_later_is_asked_for_later(
    minutes: int, seconds: int, owner: AbstractUser, as_owner: Client
) -> None:
    due = timezone.now() + timedelta(minutes=minutes)
    job = make_mine(owner, "scheduled", due_at=due)

    response = as_owner.get(f"/api/jobs/{job.pk}")

    assert response.headers["Retry-After"] == str(seconds)


def test_the_steps_of_the_current_attempt_are_told_with_their_times(
    owner: AbstractUser, as_owner: Client
) -> None:
    job = make_mine(owner, "in_progress", attempt=2)
    add_event(job, "step_started", "unpack", attempt=1, run=uuid.uuid4())
    first = add_event(job, "step_started", "unpack")
    last = add_event(job, "step_finished", "unpack")
    add_event(job, "step_started", "install")
    add_event(job, "step_failed", "install")
    add_event(job, "step_started", "start")

    steps = as_owner.get(f"/api/jobs/{job.pk}").json()["steps"]

    assert [(s["name"], s["attempt"], s["status"]) for s in steps] == [
        ("unpack", 2, "finished"),
        ("install", 2, "failed"),
        ("start", 2, "running"),
    ]
    assert steps[0]["started_at"] == told(first.created_at)
    assert steps[0]["finished_at"] == told(last.created_at)
    assert steps[2]["finished_at"] is None


def told(moment: Any) -> str:
    return str(moment.isoformat()).replace("+00:00", "Z")


def test_a_step_whose_run_is_gone_is_interrupted(
    owner: AbstractUser, as_owner: Client
) -> None:
    job = make_mine(owner, "in_progress")
    add_event(job, "step_started", "install")
    verbs.cancel(job.pk, actor=SYSTEM)

    steps = as_owner.get(f"/api/jobs/{job.pk}").json()["steps"]

    assert [step["status"] for step in steps] == ["interrupted"]


def test_a_job_that_did_not_change_is_not_sent_again(
    owner: AbstractUser, as_owner: Client
) -> None:
    job = make_mine(owner, "in_progress")
    address = f"/api/jobs/{job.pk}"
    etag = as_owner.get(address).headers["ETag"]

    again = as_owner.get(address, headers={"If-None-Match": etag})
    add_event(job, "step_started", "install")
    changed = as_owner.get(address, headers={"If-None-Match": etag})

    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["ETag"] == etag
    assert "Retry-After" in again.headers
    assert changed.status_code == 200
    assert changed.headers["ETag"] != etag


def test_a_renewed_lease_is_no_news(owner: AbstractUser, as_owner: Client) -> None:
    job = make_mine(owner, "in_progress")
    address = f"/api/jobs/{job.pk}"
    etag = as_owner.get(address).headers["ETag"]

    later = timezone.now() + timedelta(minutes=5)
    BuildJob.objects.filter(pk=job.pk).update(lease_until=later)

    again = as_owner.get(address, headers={"If-None-Match": etag})
    assert again.status_code == 304


def test_answers_are_kept_by_nobody_else(owner: AbstractUser, as_owner: Client) -> None:
    response = as_owner.get(f"/api/jobs/{make_mine(owner).pk}")

    assert "private" in response.headers["Cache-Control"]
    assert {"Authorization", "Cookie"} <= set(response.headers["Vary"].split(", "))


def test_head_answers_as_get_without_a_body(
    owner: AbstractUser, as_owner: Client
) -> None:
    address = f"/api/jobs/{make_mine(owner).pk}"

    read, asked = as_owner.get(address), as_owner.head(address)

    assert (asked.status_code, asked.content) == (200, b"")
    assert asked.headers["ETag"] == read.headers["ETag"]
    assert asked.headers["Content-Length"] == str(len(read.content))


def test_reading_a_job_takes_four_queries(
    owner: AbstractUser, django_assert_num_queries: Any
) -> None:
    agent = make_agent(str(owner.pk))
    job = make_mine(owner, "in_progress", agent=agent)
    make_build(agent, job=job)
    for n in range(5):
        add_event(job, "step_started", f"step {n}")
    client = used_token(owner)

    with django_assert_num_queries(4):  # token, job, steps, build
        assert client.get(f"/api/jobs/{job.pk}").status_code == 200


def used_token(owner: AbstractUser) -> Client:
    client = token_client(owner)
    ApiToken.objects.update(last_used_at=timezone.now())
    return client


def test_the_timeline_is_read_on_after_an_event(
    owner: AbstractUser, as_owner: Client
) -> None:
    job = make_mine(owner)
    ids = [add_event(job, "note", f"event {n}", detail={"n": n}).pk for n in range(5)]
    address = f"/api/jobs/{job.pk}/events"

    first = as_owner.get(address, {"limit": 3}).json()
    second = as_owner.get(address, {"limit": 3, "after": first["next"]}).json()
    none = as_owner.get(address, {"after": second["next"]}).json()

    assert [e["id"] for e in first["events"] + second["events"]] == ids
    assert first["events"][2]["detail"] == {"n": 2}
    assert none == {"events": [], "next": ids[-1], "finished": False}


def test_the_timeline_is_finished_with_its_job(
    owner: AbstractUser, as_owner: Client
) -> None:
    job = make_mine(owner, "done")
    for n in range(3):
        add_event(job, "note", f"event {n}")
    address = f"/api/jobs/{job.pk}/events"

    assert as_owner.get(address, {"limit": 3}).json()["finished"] is False
    assert as_owner.get(address, {"limit": 4}).json()["finished"] is True


def test_the_text_of_a_hosts_exception_is_not_told(
    owner: AbstractUser, as_owner: Client
) -> None:
    job = make_mine(owner, "failed")
    add_event(job, "final_hook_failed", "", detail={"error": "KeyError: 'hush'"})

    response = as_owner.get(f"/api/jobs/{job.pk}/events")

    assert response.json()["events"][0]["kind"] == "final_hook_failed"
    assert "hush" not in response.text


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (json.dumps({"reason": "wrong zip"}), "application/json"),
        ("reason=wrong+zip", "application/x-www-form-urlencoded"),
    ],
)
def test_cancel_stops_the_job_and_keeps_the_reason(
    body: str, content_type: str, owner: AbstractUser, as_owner: Client
) -> None:
    job = make_mine(owner, "in_progress")

    response = as_owner.post(
        f"/api/jobs/{job.pk}/cancel", body, content_type=content_type
    )

    assert response.status_code == 200, response.text
    assert response.json()["status"] == "cancelled"
    event = JobEvent.objects.get(job=job, kind="cancel")
    assert (event.actor, event.reason) == ("owner", "wrong zip")


def test_retry_puts_the_job_back_and_says_where(
    owner: AbstractUser, as_owner: Client
) -> None:
    job = make_mine(owner, "failed", failures=3)

    response = as_owner.post(f"/api/jobs/{job.pk}/retry")

    assert response.status_code == 202
    assert response.headers["Location"] == f"/api/jobs/{job.pk}"
    assert response.json()["status"] == "pending"
    assert response.json()["max_attempts"] == 4


@pytest.mark.parametrize(
    ("status", "verb"), [("done", "cancel"), ("done", "retry"), ("pending", "retry")]
)
def test_a_verb_that_the_status_does_not_allow_is_refused(
    status: str, verb: str, owner: AbstractUser, as_owner: Client
) -> None:
    job = make_mine(owner, status)

    response = as_owner.post(f"/api/jobs/{job.pk}/{verb}")

    problem = assert_problem(response, 409, "invalid_transition")
    assert (problem["found"], problem["verb"]) == (status, verb)
    job.refresh_from_db()
    assert job.status == status


@pytest.mark.parametrize(
    ("body", "content_type", "status", "code"),
    [
        ("{", "application/json", 400, "malformed_json"),
        ("[" * 100_000, "application/json", 400, "malformed_json"),
        (b"\xff\xfe", "application/json", 400, "malformed_json"),
        ("[1]", "application/json", 400, "malformed_json"),
        ('{"reson": "x"}', "application/json", 422, "unknown_field"),
        ('{"reason": 1}', "application/json", 422, "invalid_field"),
        ('{"reason": null}', "application/json", 422, "invalid_field"),
        (json.dumps({"reason": "x" * 1001}), "application/json", 422, "invalid_field"),
        ('{"reason": "' + "x" * 3_000_000, "application/json", 413, "body_too_large"),
        ("junk", "text/plain", 415, "unsupported_media_type"),
        ("junk", "multipart/form-data", 400, "malformed_multipart"),
        ("why=x", "application/x-www-form-urlencoded", 422, "unknown_field"),
        ("a=&" * 2000, "application/x-www-form-urlencoded", 400, "too_many_fields"),
        ("x" * 3_000_000, "application/x-www-form-urlencoded", 413, "body_too_large"),
    ],
)
def test_a_bad_body_of_a_verb_changes_nothing(
    body: str,
    content_type: str,
    status: int,
    code: str,
    owner: AbstractUser,
    as_owner: Client,
) -> None:
    job = make_mine(owner)

    response = as_owner.post(
        f"/api/jobs/{job.pk}/cancel", body, content_type=content_type
    )

    assert_problem(response, status, code)
    job.refresh_from_db()
    assert job.status == "pending"


def test_a_reason_that_cannot_be_stored_is_made_storable(
    owner: AbstractUser, as_owner: Client
) -> None:
    job = make_mine(owner)
    body = '{"reason": "nul \\u0000 and half a pair \\ud800"}'

    response = as_owner.post(
        f"/api/jobs/{job.pk}/cancel", body, content_type="application/json"
    )

    assert response.status_code == 200, response.text
