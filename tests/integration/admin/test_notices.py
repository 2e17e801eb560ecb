"""What does an operator see of notices, and who may have one sent again?"""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from buildqueue.models import JobEvent, Notice
from tests.factories import make_job
from tests.support.receiver import SECRET

from .conftest import Login
from .pages import act_url, html_of, page_of, text_of

NOTICES = "/admin/buildqueue/notice/"
HOOK = "https://hooks.example.org/T0KEN"


def make_notice(status: str = "failed", **values: Any) -> Notice:
    given: dict[str, Any] = {
        "key": str(uuid.uuid4()),
        "destination": "pager",
        "event": "job.failed",
        "body": {"type": "job.failed", "data": {"kind": "probe"}},
        "status": status,
        "tries": 10,
        "error_msg": "answered 503: <b>not now</b>",
    }
    if status == "sent":
        given["sent_at"] = timezone.now()
    return Notice.objects.create(**(given | values))


def status_of(notice: Notice) -> str:
    return Notice.objects.values_list("status", flat=True).get(pk=notice.pk)


def test_the_list_and_the_page_tell_what_became_of_a_notice(root: Client) -> None:
    job = make_job()
    notice = make_notice(job_id=job.pk)

    listed, page = root.get(NOTICES), root.get(page_of(notice))

    for answer in (listed, page):
        text = text_of(answer)
        assert "job.failed" in text
        assert "pager" in text
        assert "answered 503: <b>not now</b>" in text
        assert "<b>not now</b>" not in html_of(answer)
        assert page_of(job) in html_of(answer)
    assert '"kind": "probe"' in text_of(page)


def test_neither_secret_nor_address_is_shown_anywhere(root: Client) -> None:
    notice = make_notice()
    destination = {"name": "pager", "events": ["*"], "webhook": HOOK, "secret": SECRET}

    with override_settings(BUILDQUEUE={"NOTICES": [destination]}):
        pages = [
            html_of(root.get(NOTICES)),
            html_of(root.get(page_of(notice))),
            html_of(root.get(act_url("resend", "notice"), {"id": str(notice.pk)})),
        ]

    for page in pages:
        assert "pager" in page
        assert SECRET not in page
        assert SECRET.removeprefix("whsec_") not in page
        assert "T0KEN" not in page


@pytest.mark.parametrize("status", ["failed", "sent"])
def test_a_notice_is_sent_again_and_the_job_remembers_who_wanted_it(
    login: Login, status: str
) -> None:
    job = make_job()
    notice = make_notice(status, job_id=job.pk)
    client = login("view_notice", "change_notice", name="ada")

    asked = {"id": str(notice.pk), "reason": "it is back"}
    answer = client.post(act_url("resend", "notice"), asked, follow=True)

    assert "The notice is sent again within seconds." in text_of(answer)
    notice.refresh_from_db()
    assert (notice.status, notice.tries, notice.sent_at) == ("pending", 0, None)
    event = JobEvent.objects.get(job_id=job.pk)
    assert (event.actor, event.reason) == ("ada", "it is back")


def test_many_are_sent_again_from_the_list_and_waiting_ones_are_left(
    root: Client,
) -> None:
    failed, waiting = make_notice(), make_notice("pending")
    chosen = [str(failed.pk), str(waiting.pk)]

    asked = root.post(NOTICES, {"action": "resend", "_selected_action": chosen})
    assert "it waits to be sent already" in text_of(asked)
    root.post(act_url("resend", "notice"), {"id": chosen})

    waiting.refresh_from_db()
    assert (status_of(failed), waiting.tries) == ("pending", 10)


def test_sending_again_needs_its_permission(login: Login) -> None:
    notice = make_notice()
    viewer = login("view_notice")

    answer = viewer.post(act_url("resend", "notice"), {"id": str(notice.pk)})

    assert answer.status_code == 403
    assert status_of(notice) == "failed"
    assert "Send again" not in html_of(viewer.get(page_of(notice)))


def test_a_notice_cannot_be_edited(root: Client) -> None:
    notice = make_notice()

    answer = root.post(page_of(notice), {"status": "sent", "destination": "x"})

    assert answer.status_code == 403
    assert status_of(notice) == "failed"


def test_notices_are_found_by_job_and_by_status(root: Client) -> None:
    one, other = make_notice(job_id=uuid.uuid4()), make_notice("pending")

    by_job = html_of(root.get(NOTICES, {"q": str(one.job_id)}))
    by_status = html_of(root.get(NOTICES, {"status__exact": "pending"}))

    assert page_of(one) in by_job
    assert page_of(other) not in by_job
    assert page_of(other) in by_status
    assert page_of(one) not in by_status


def test_a_long_list_costs_as_many_statements_as_a_short_one(root: Client) -> None:
    counts = []
    for number in (1, 20):
        for age in range(number):
            moment = timezone.now() - timedelta(hours=age)
            make_notice(created_at=moment, job_id=uuid.uuid4())
        with CaptureQueriesContext(connection) as captured:
            root.get(NOTICES)
        counts.append(len(captured))

    assert counts[0] == counts[1]
