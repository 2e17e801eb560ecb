"""What does an operator get from `manage.py buildqueue`?"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from buildqueue.management import jobs_text, logs_text
from buildqueue.management.shown import moment
from buildqueue.models import BuildJob, JobEvent, JobRun, LogChunk
from buildqueue.queue import logs
from buildqueue.states import JobStatus, RunOutcome
from tests.factories import make_job, make_run
from tests.support.scratch import url_of

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).parents[3]
ENDED = {"ended_at": timezone.now(), "outcome": RunOutcome.FAILED}


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


def test_tries_are_those_that_are_used_up_not_the_claims() -> None:
    job = make_job(attempt=13, crashes=1, max_attempts=3)

    assert " 1/3 " in run("list")
    assert "1/3 (failures 0, crashes 1; claimed 13 times)" in run("show", str(job.pk))
    assert json.loads(run("list", "--json"))["crashes"] == 1


def test_a_list_that_is_cut_says_how_many_there_are_and_whose() -> None:
    for owner in ("ada", "a-very-long-owner-key", "bob"):
        make_job(owner_id=owner)

    cut, whole = run("list", "--limit", "2"), run("list", "--limit", "3")

    assert cut.splitlines()[-1] == "2 of 3; --limit for more"
    assert "--limit" not in whole
    assert "  ada  " in whole
    assert "  a-very-long-o…  " in whole


def test_a_used_up_job_is_found_by_the_code_of_its_last_run() -> None:
    used_up = make_job(JobStatus.FAILED, error_code="max_attempts_exhausted", attempt=2)
    other = make_job(JobStatus.FAILED, error_code="max_attempts_exhausted")
    plain = make_job(JobStatus.FAILED, error_code="out_of_memory")
    codes = ("timed_out", "out_of_memory")
    for attempt, code in enumerate(codes, start=1):
        make_run(used_up, attempt=attempt, error_code=code, **ENDED)
    make_run(other, error_code="timed_out", **ENDED)

    text = run("list", "--code", "out_of_memory")

    found = {line.split()[0] for line in text.splitlines()[1:]}
    assert found == {str(used_up.pk), str(plain.pk)}
    assert "max_attempts_exhausted (out_of_memory)" in text
    assert "max_attempts_exhausted (timed_out)" in run("list")


def test_the_number_of_queries_of_a_list_does_not_depend_on_its_rows(
    django_assert_num_queries: Any,
) -> None:
    for _ in range(3):
        job = make_job(JobStatus.FAILED, error_code="max_attempts_exhausted")
        make_run(job, error_code="timed_out", **ENDED)
    options = {"status": None, "kind": None, "queue": None, "code": None, "json": False}

    with django_assert_num_queries(3):  # the rows, why their last run failed, the count
        assert len(list(jobs_text.listing({**options, "limit": 3}))) == 4


def test_who_reads_no_further_ends_the_command_quietly() -> None:
    listing = [sys.executable, "manage.py", "buildqueue", "list"]
    reading, writing = os.pipe()
    os.close(reading)

    done = subprocess.run(
        listing,
        cwd=ROOT,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env=os.environ | {"DATABASE_URL": url_of(connection.settings_dict["NAME"])},
    )
    os.close(writing)

    assert (done.returncode, done.stderr) == (141, "")


def test_moments_are_told_with_their_zone(settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    job = make_job(due_at=datetime(2030, 1, 1, tzinfo=UTC))

    assert "2030-01-01 09:00:00+09:00" in run("show", str(job.pk))


def test_show_names_runs_and_timeline() -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    JobRun.objects.filter(job=job).update(pid=4711)
    JobEvent.objects.create(job=job, kind="claim", actor="worker")

    text = run("show", str(job.pk))
    data = json.loads(run("show", str(job.pk), "--json"))

    assert "in_progress" in text
    assert "claim" in text
    run_line = next(line for line in text.splitlines() if " running " in line).split()
    started = moment(job.runs.get().started_at)
    assert run_line == [
        "1",
        *started.split(),
        "-",
        "running",
        str(job.worker)[:8],
        "4711",
    ]
    assert "  attempt  started" in text
    assert str(job.worker) not in text
    assert data["runs"][0]["attempt"] == 1
    assert data["events"][0]["kind"] == "claim"


def test_show_tells_when_a_run_ended_and_the_result_as_json() -> None:
    job = make_job(JobStatus.DONE, result={"url": "x", "n": None})
    ended = timezone.now()
    make_run(job, ended_at=ended, outcome=RunOutcome.SUCCEEDED)

    text = run("show", str(job.pk))

    assert '{"n": null, "url": "x"}' in text
    assert f"  {moment(ended)}  succeeded" in text


@pytest.mark.parametrize(
    "limit", ["0", "-1", "many", "100001", "9" * 23, "9" * 5000, "²", "٣"]
)
def test_a_list_of_less_than_one_job_is_refused(limit: str) -> None:
    with pytest.raises(CommandError, match="must be a whole number from 1"):
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

    mark = "--- attempt 2 ---"
    whole = run("logs", str(job.pk)).splitlines()
    later = run("logs", str(job.pk), "--since", "2.1")
    rest = run("logs", str(job.pk), "--since", "1.2")

    assert whole == ["one", "two", mark, "three", "four"]
    assert later.splitlines() == ["four"]
    assert rest.splitlines() == [mark, "three", "four"]


def test_what_an_attempt_left_without_an_end_of_line_stands_alone() -> None:
    job = make_job(JobStatus.DONE)
    write_log(job, 1, "begun", " and cut")
    write_log(job, 2, "again\n")

    assert run("logs", str(job.pk)).splitlines() == [
        "begun and cut",
        "--- attempt 2 ---",
        "again",
    ]


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
        if not LogChunk.objects.filter(job_id=job.pk, attempt=2).exists():
            write_log(job, 2, "late\n")
        BuildJob.objects.filter(pk=job.pk).update(completed_at=long_ago())

    monkeypatch.setattr(logs_text.time, "sleep", the_worker_stores_the_rest)

    told = run("logs", "-f", str(job.pk)).splitlines()

    assert told == ["early", "--- attempt 2 ---", "late"]


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
