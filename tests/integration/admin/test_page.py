"""What does a job's page show, to whom, and at which cost?"""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from buildqueue.models import BuildJob, JobEvent, JobRun, LogChunk, Worker
from tests.factories import make_agent, make_job, make_run, make_user

from .conftest import Login
from .pages import html_of, page_of, text_of

HOSTILE = "<script>alert(1)</script>"


def write_log(job: object, text: str, **values: object) -> LogChunk:
    values.setdefault("seq", 1)
    values.setdefault("stream", "stdout")
    return LogChunk.objects.create(
        job_id=job.pk, run_id=job.pk, attempt=1, text=text, **values
    )


def test_runs_tell_how_each_attempt_ended(root: Client) -> None:
    worker = Worker.objects.create(host="builder-1", pid=7, slots=2, version="1")
    job = make_job("failed", attempt=2)
    make_run(
        job,
        attempt=1,
        worker=worker.pk,
        pid=4242,
        ended_at=timezone.now(),
        outcome="crashed",
        exit_signal=11,
        error_code="crashed",
        error_msg="the process died",
        traceback="Traceback: boom",
        peak_memory_bytes=50 * 1_048_576,
        cpu_seconds=1.5,
    )

    page = text_of(root.get(page_of(job)))

    for words in (
        "builder-1:7",
        "Run pid",
        " 4242 ",
        "Worker (host:pid)",
        "SIGSEGV",
        "✖︎ crashed",
        "the process died",
        "Traceback: boom",
        "50 MiB",
        "1.5 s",
    ):
        assert words in page, words


def test_the_timeline_tells_who_did_what_and_why_in_order(root: Client) -> None:
    job = make_job()
    JobEvent.objects.create(job=job, kind="enqueue", title="pending", actor="ada")
    JobEvent.objects.create(
        job=job,
        kind="step_failed",
        title="fetch",
        reason="no such branch",
        detail={"url": "https://u:hunter2@host/x", "api_token": "hunter2"},
    )

    page = text_of(root.get(page_of(job)))

    assert page.index("enqueue → ○︎ pending") < page.index("step failed: fetch")
    assert "no such branch" in page
    assert "ada" in page
    assert "hunter2" not in page


def begin_step(job: BuildJob, run: uuid.UUID | None, title: str) -> None:
    JobEvent.objects.create(job=job, run=run, kind="step_started", title=title)


def test_a_step_that_a_crash_cut_off_is_told_as_interrupted(root: Client) -> None:
    job = make_job("in_progress", attempt=2)
    crashed = uuid.uuid4()
    begin_step(job, crashed, "unpack")
    JobEvent.objects.create(job=job, run=crashed, kind="step_finished", title="unpack")
    begin_step(job, crashed, "build")
    begin_step(job, job.lease_id, "health")

    page = text_of(root.get(page_of(job)))

    assert "step started: build (interrupted)" in page
    assert page.count("(interrupted)") == 1


def test_a_job_names_the_user_behind_its_owners_key(root: Client) -> None:
    user = make_user("operator")

    page = text_of(root.get(page_of(make_job(owner_id=str(user.pk)))))

    assert f"by operator ({user.pk})" in page


@pytest.mark.parametrize("key", ["nobody-1", "9" * 40, "-1", "01", "1.0", "٣", "é"])
def test_an_owners_key_that_is_no_users_is_shown_as_it_is(
    root: Client, key: str
) -> None:
    assert f" by {key} " in text_of(root.get(page_of(make_job(owner_id=key))))


def test_tries_count_what_was_used_up_not_what_was_claimed(root: Client) -> None:
    job = make_job("failed", attempt=5, failures=1, crashes=1)

    page = text_of(root.get(page_of(job)))

    assert "2/3 (failures 1, crashes 1; claimed 5 times)" in page


def test_secrets_in_a_payload_are_never_shown(root: Client) -> None:
    payload = {
        "kind": "probe",
        "env": {"PLAIN": "hunter1"},
        "deep": [{"password": "hunter2"}],
        "repository": "https://me:hunter3@git.example/a.git",
        "branch": "main",
    }

    page = text_of(root.get(page_of(make_job(payload=payload))))

    assert "hunter" not in page
    assert '"PLAIN": "••••"' in page
    assert "https://••••@git.example/a.git" in page
    assert '"branch": "main"' in page


def test_payload_and_log_need_permissions_of_their_own(login: Login) -> None:
    job = make_job(payload={"kind": "probe", "label": "very-visible"})
    write_log(job, "printed\n")
    viewer = login("view_buildjob")
    reader = login("view_buildjob", "view_payload", "view_log")

    refused, shown = (
        text_of(viewer.get(page_of(job))),
        text_of(reader.get(page_of(job))),
    )

    assert "(needs: view payload)" in refused
    assert "(needs: view log)" in refused
    assert "very-visible" not in refused
    assert "printed" not in refused
    assert "very-visible" in shown
    assert "printed" in shown


def test_nothing_that_a_job_says_becomes_markup(root: Client) -> None:
    agent = make_agent(name=HOSTILE, url="javascript:alert(1)")
    job = make_job(
        "failed",
        agent=agent,
        error_code="x",
        error_msg=HOSTILE,
        payload={"kind": HOSTILE},
        queue=HOSTILE,
    )
    write_log(job, f"{HOSTILE}\n", stream="stderr")
    JobEvent.objects.create(job=job, kind="note", title=HOSTILE, reason=HOSTILE)

    for address in (
        page_of(job),
        page_of(agent),
        "/admin/buildqueue/buildjob/",
        "/admin/buildqueue/overview/",
        "/admin/buildqueue/agent/",
    ):
        page = html_of(root.get(address))
        assert HOSTILE not in page, address
        assert 'href="javascript' not in page, address


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "No worker has reported for 60 s. Jobs will wait."),
        ({"held": True}, "A limit of its queue or owner holds it back."),
    ],
)
def test_a_waiting_job_says_what_it_waits_for(
    root: Client, values: dict[str, object], words: str
) -> None:
    assert words in text_of(root.get(page_of(make_job(**values))))


def test_a_job_that_is_not_due_says_when_it_is(root: Client) -> None:
    later = timezone.now() + timedelta(days=2, minutes=10)

    page = text_of(root.get(page_of(make_job(due_at=later))))

    assert "It is due in 2 d" in page


@pytest.mark.parametrize(
    ("queues", "capabilities", "busy", "words"),
    [
        (["other"], [], 0, "No worker serves the queue “default”."),
        ([], [], 0, "No worker has what it requires: host:a."),
        ([], ["host:a"], 2, "All slots are busy"),
        ([], ["host:a"], 0, "A worker with a free slot takes it next."),
    ],
)
def test_a_due_job_says_which_worker_is_missing(
    root: Client, queues: list[str], capabilities: list[str], busy: int, words: str
) -> None:
    Worker.objects.create(
        host="h",
        pid=1,
        slots=2,
        busy=busy,
        version="1",
        queues=queues,
        capabilities=capabilities,
    )

    assert words in text_of(root.get(page_of(make_job(requires="host:a"))))


def test_a_job_behind_its_key_says_behind_which(root: Client) -> None:
    running = make_job("in_progress", serial_key="agent:1")

    page = text_of(root.get(page_of(make_job(serial_key="agent:1"))))

    assert f"Job {str(running.pk)[:8]} runs under the same key" in page


def test_a_page_costs_the_same_for_one_run_and_for_many(root: Client) -> None:
    def fill(job: object, number: int) -> None:
        for attempt in range(1, number + 1):
            run = make_run(
                job,
                id=uuid.uuid4(),
                attempt=attempt,
                ended_at=timezone.now(),
                outcome="failed",
            )
            LogChunk.objects.create(
                job_id=job.pk,
                run_id=run.pk,
                attempt=attempt,
                seq=1,
                stream="stdout",
                text="x\n",
            )
            JobEvent.objects.create(job=job, kind="claim")

    small, large = make_job("failed"), make_job("failed", agent=make_agent())
    fill(small, 1)
    fill(large, 15)
    root.get(page_of(small))
    with CaptureQueriesContext(connection) as few:
        root.get(page_of(small))
    with CaptureQueriesContext(connection) as many:
        root.get(page_of(large))

    assert JobRun.objects.count() == 16
    assert len(many) == len(few) <= 13


def test_a_job_that_does_not_exist_leads_back(root: Client) -> None:
    for identifier in ("nonsense", "1", "0" * 32):
        answer = root.get(f"/admin/buildqueue/buildjob/{identifier}/change/")
        assert answer.status_code == 302
