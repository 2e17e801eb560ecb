"""Can a shell see what was told to the outside, and have it sent again?"""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from buildqueue.models import JobEvent, Notice
from tests.factories import make_job

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("buildqueue", "notices", *arguments, stdout=out)
    return out.getvalue()


def make_notice(key: str, status: str = "failed", **values: Any) -> Notice:
    sent = timezone.now() if status == "sent" else None
    return Notice.objects.create(
        key=key,
        destination="ops",
        event="job.failed",
        body={"hidden": 1},
        status=status,
        sent_at=sent,
        **values,
    )


def test_notices_are_listed_the_newest_first_and_narrowed_to_those_given_up() -> None:
    sent = make_notice("a", "sent")
    job = make_job()
    failed = make_notice("b", error_msg="answered 500: no", tries=15, job_id=job.pk)

    lines, some = run().splitlines(), run("--failed").splitlines()
    (data,) = map(json.loads, run("--failed", "--json").splitlines())

    assert [line.split()[0] for line in lines[1:]] == [str(failed.pk), str(sent.pk)]
    assert [line.split()[0] for line in some[1:]] == [str(failed.pk)]
    assert f"job.failed              ops             {str(job.pk)[:8]}  15 " in some[1]
    assert some[1].endswith("answered 500: no")
    assert lines[0].index("error") == some[1].index("answered")
    assert (data["id"], data["destination"]) == (str(failed.pk), "ops")
    assert "body" not in data


def test_a_notice_is_sent_again_and_its_job_keeps_who_wanted_it() -> None:
    job = make_job()
    notice = make_notice("a", job_id=job.pk, tries=15)

    told = run("--resend", str(notice.pk)[:8], "--reason", "they are back")

    notice.refresh_from_db()
    event = JobEvent.objects.get(job=job)
    assert told.startswith(f"{notice.pk} is pending")
    assert (notice.status, notice.tries) == ("pending", 0)
    assert event.reason == "they are back"
    assert event.actor.endswith("(command line)")


def test_a_notice_that_waits_or_is_not_there_is_not_sent_again() -> None:
    waits = make_notice("a", "pending")

    for typed, words in ((str(waits.pk), "waits to be sent"), ("zzzz", "no notice")):
        with pytest.raises(CommandError, match=words):
            run("--resend", typed)
