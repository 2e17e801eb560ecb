"""Can a shell hold back, retry and reschedule jobs, and does it say what it did?"""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from buildqueue.management.arguments import ACTS
from buildqueue.models import JobEvent
from buildqueue.queue import verbs
from buildqueue.states import JobStatus
from tests.factories import make_job
from tests.support.commands import refusal, run

pytestmark = pytest.mark.django_db


def test_a_job_is_held_back_and_goes_on() -> None:
    job = make_job()

    assert run("pause", str(job.pk), "--reason", "lunch") == f"{job.pk} is paused\n"
    assert run("resume", str(job.pk)) == f"{job.pk} is pending\n"
    assert JobEvent.objects.get(job=job, kind="pause").reason == "lunch"


def test_several_jobs_are_retried_and_each_is_told() -> None:
    failed, done = make_job(JobStatus.FAILED), make_job(JobStatus.DONE)
    out = io.StringIO()

    with pytest.raises(CommandError, match="1 of 2 refused") as told:
        call_command("buildqueue", "retry", str(failed.pk), str(done.pk), stdout=out)

    assert told.value.returncode == 1
    assert out.getvalue().splitlines() == [
        f"{failed.pk} is pending",
        f"{done.pk} refused (wrong_status): cannot retry job {done.pk}: it is done",
    ]


def test_a_mistyped_job_among_several_leaves_all_as_they_were() -> None:
    job = make_job(JobStatus.FAILED)

    assert "no job begins" in str(refusal("retry", str(job.pk), "zzzz"))
    job.refresh_from_db()
    assert job.status == "failed"


def test_the_quarantine_is_a_list() -> None:
    quarantined = make_job(JobStatus.FAILED, error_code="max_attempts_exhausted")
    make_job(JobStatus.FAILED, error_code="told_to")

    lines = run("list", "--code", "max_attempts_exhausted").splitlines()[1:]

    assert [line.split()[0] for line in lines] == [str(quarantined.pk)]


def test_priority_changes() -> None:
    job = make_job()

    assert run("priority", str(job.pk), "7") == f"{job.pk} has priority 7\n"
    assert "must be a whole number from -100" in str(
        refusal("priority", str(job.pk), "101")
    )
    job.refresh_from_db()
    assert job.priority == 7


@pytest.mark.parametrize(
    ("when", "wait"),
    [
        ("+90s", timedelta(seconds=90)),
        ("+10m", timedelta(minutes=10)),
        ("+2h", timedelta(hours=2)),
        ("+3d", timedelta(days=3)),
    ],
)
def test_a_job_is_due_a_while_from_now(when: str, wait: timedelta) -> None:
    job, before = make_job(), timezone.now()

    told = run("due", str(job.pk), when)

    job.refresh_from_db()
    assert before + wait <= job.due_at <= timezone.now() + wait
    assert told.startswith(f"{job.pk} is scheduled, due 2")


def test_a_moment_without_an_offset_is_in_the_projects_time_zone(settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    job = make_job()

    run("due", str(job.pk), "2050-01-01T09:00")

    job.refresh_from_db()
    assert job.due_at.isoformat() == "2050-01-01T00:00:00+00:00"


def test_a_job_is_due_now() -> None:
    later = timezone.now() + timedelta(days=1)
    job = make_job(JobStatus.SCHEDULED, due_at=later)

    assert "is pending" in run("due", str(job.pk), "now")


@pytest.mark.parametrize(
    "when",
    ["soon", "10m", "+1y", "+999999999d", "0001-01-01T00:00", "2050-13-01", "-1"],
)
def test_a_moment_that_is_none_is_refused(when: str) -> None:
    job = make_job()

    assert "must be `now`" in str(refusal("due", str(job.pk), "--", when))


def test_every_verb_of_the_engine_has_a_command() -> None:
    assert {verb for verb, _help in ACTS.values()} | {"retry"} == set(verbs.VERBS)
