"""What does an operator get from `manage.py buildqueue`?"""

from __future__ import annotations

import io
import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from buildqueue.management import jobs_text
from buildqueue.models import BuildJob, JobEvent, JobRun, LogChunk
from buildqueue.queue import logs
from buildqueue.states import JobStatus, RunOutcome
from tests.factories import make_job, make_run

pytestmark = pytest.mark.django_db


def long_ago() -> datetime:
    return timezone.now() - timedelta(hours=1)


def run(*arguments: str, **options: Any) -> str:
    out = io.StringIO()
    call_command("buildqueue", *arguments, stdout=out, **options)
    return out.getvalue()


def write_log(job: BuildJob, attempt: int, *texts: str) -> None:
    for seq, text in enumerate(texts, start=1):
        LogChunk.objects.create(
            job_id=job.pk,
            run_id=UUID(int=attempt),
            attempt=attempt,
            seq=seq,
            stream="stdout",
            text=text,
        )


def test_list_shows_the_newest_first_and_filters_by_status() -> None:
    old, new = make_job(), make_job()
    failed = make_job(JobStatus.FAILED, error_code="told_to")

    lines = run("list").splitlines()
    only_failed = run("list", "--status", "failed")

    assert [line.split()[0] for line in lines[1:]] == [
        str(failed.pk),
        str(new.pk),
        str(old.pk),
    ]
    assert str(failed.pk) in only_failed
    assert "told_to" in only_failed
    assert lines[0].index("error") == lines[1].index("told_to")
    assert str(old.pk) not in only_failed


def test_list_as_json_is_one_object_a_line_without_the_payload() -> None:
    job = make_job(payload={"kind": "probe", "label": "hidden"})

    (line,) = run("list", "--json").splitlines()

    assert json.loads(line)["id"] == str(job.pk)
    assert "hidden" not in line


def test_show_names_runs_and_timeline() -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    JobRun.objects.filter(job=job).update(pid=4711)
    JobEvent.objects.create(job=job, kind="claim", actor="worker")

    text = run("show", str(job.pk))
    data = json.loads(run("show", str(job.pk), "--json"))

    assert "in_progress" in text
    assert "claim" in text
    assert f"worker {job.worker}  pid 4711" in text
    assert f"{job.runs.get().started_at:%Y-%m-%d %H:%M:%S}  -  " in text
    assert data["runs"][0]["attempt"] == 1
    assert data["events"][0]["kind"] == "claim"


def test_show_tells_when_a_run_ended_and_the_result_as_json() -> None:
    job = make_job(JobStatus.DONE, result={"url": "x", "n": None})
    ended = timezone.now()
    make_run(job, ended_at=ended, outcome=RunOutcome.SUCCEEDED)

    text = run("show", str(job.pk))

    assert '{"n": null, "url": "x"}' in text
    assert f"  {ended:%Y-%m-%d %H:%M:%S}  succeeded" in text


@pytest.mark.parametrize("limit", ["0", "-1", "many"])
def test_a_list_of_less_than_one_job_is_refused(limit: str) -> None:
    with pytest.raises(CommandError, match="must be a whole number from 1 on"):
        run("list", "--limit", limit)


def test_a_job_answers_to_the_first_letters_of_its_id() -> None:
    job = make_job()

    assert str(job.pk) in run("show", str(job.pk)[:8])


@pytest.mark.parametrize("typed", ["abc", "zzzzzzzz"])
def test_a_job_that_is_not_there_is_refused_with_a_sentence(typed: str) -> None:
    with pytest.raises(CommandError, match=r"no job begins|too short"):
        run("show", typed)


def test_logs_prints_whole_lines_of_all_attempts_and_resumes() -> None:
    job = make_job(JobStatus.DONE)
    write_log(job, 1, "one\ntw", "o\n")
    write_log(job, 2, "three\n", "four")

    assert run("logs", str(job.pk)).splitlines() == ["one", "two", "three", "four"]
    later = run("logs", str(job.pk), "--since", "2.1")
    assert later.splitlines() == ["four"]


def test_logs_refuses_a_position_that_is_none() -> None:
    with pytest.raises(CommandError, match="no position"):
        run("logs", str(make_job().pk), "--since", "far")


def test_following_an_ended_job_ends() -> None:
    job = make_job(JobStatus.FAILED, completed_at=long_ago())
    write_log(job, 1, "last words\n")

    assert run("logs", "-f", str(job.pk)) == "last words\n"


def test_following_waits_for_what_is_stored_after_the_end_of_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = make_job(JobStatus.DONE)
    write_log(job, 1, "early\n")

    def the_worker_stores_the_rest(seconds: float) -> None:
        write_log(job, 2, "late\n")
        BuildJob.objects.filter(pk=job.pk).update(completed_at=long_ago())

    monkeypatch.setattr(jobs_text.time, "sleep", the_worker_stores_the_rest)

    assert run("logs", "-f", str(job.pk)) == "early\nlate\n"


def test_a_log_is_complete_once_no_process_can_write_it() -> None:
    job = make_job(JobStatus.CANCELLED, completed_at=long_ago())
    revoked = make_run(job)

    assert not logs.complete(job.pk)
    revoked.expires_at = long_ago()
    revoked.save()
    assert logs.complete(job.pk)


def test_a_log_of_an_open_job_is_not_complete_and_that_of_a_deleted_one_is() -> None:
    assert not logs.complete(make_job().pk)
    assert logs.complete(UUID(int=1))


@pytest.mark.parametrize(
    ("verb", "before", "after"),
    [
        ("cancel", JobStatus.PENDING, JobStatus.CANCELLED),
        ("retry", JobStatus.FAILED, JobStatus.PENDING),
        ("release", JobStatus.IN_PROGRESS, JobStatus.PENDING),
        ("fail", JobStatus.PENDING, JobStatus.FAILED),
    ],
)
def test_each_act_changes_the_job_and_is_recorded(
    verb: str, before: str, after: str
) -> None:
    job = make_job(before)

    told = run(verb, str(job.pk), "--reason", "because")

    job.refresh_from_db()
    event = JobEvent.objects.get(job=job)
    assert job.status == after
    assert str(after) in told
    assert event.reason == "because"
    assert "command line" in event.actor


def test_an_act_that_the_state_does_not_allow_is_refused() -> None:
    job = make_job(JobStatus.DONE)

    with pytest.raises(CommandError, match="it is done"):
        run("cancel", str(job.pk))
