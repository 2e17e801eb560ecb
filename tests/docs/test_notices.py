"""Does the page on notices show what is sent, and a view that takes it?"""

from __future__ import annotations

import json
import re
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from django.utils import timezone

from buildqueue.queue.outbox import bodies, signing
from buildqueue.states import JobStatus
from tests.factories import make_job

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "be-notified.md").read_text()
SECRET = "whsec_" + "A" * 32


@pytest.mark.django_db
def test_the_sample_has_exactly_what_a_notice_has() -> None:
    [sample] = re.findall(r"```json\n(.*?)```", PAGE, re.S)
    job = make_job(JobStatus.FAILED, error_code="exception", error_msg="it broke")

    shown = json.loads(sample)
    sent = bodies.body("job.failed", timezone.now(), bodies.of_job(job))

    assert list(shown) == list(sent)
    assert list(shown["data"]) == list(sent["data"])
    assert list(shown["data"]["error"]) == list(sent["data"]["error"])


def _answer(view: Any, told: dict[str, Any], number: uuid.UUID) -> HttpResponse:
    content = json.dumps(told).encode()
    proof = signing.headers(number, int(time.time()), content, SECRET)
    request = RequestFactory(enforce_csrf_checks=True).post(
        "/", content, content_type="application/json", headers=proof
    )
    answer: HttpResponse = view(request)
    return answer


def test_the_view_takes_a_notice_once_and_refuses_a_forged_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [code] = re.findall(r"```python\n(# receiver\n.*?)```", PAGE, re.S)
    scope: dict[str, Any] = {}
    exec(code, scope)
    monkeypatch.setenv("PAGER_SECRET", SECRET)
    told, number = {"type": "job.failed", "data": {"job": "7"}}, uuid.uuid4()

    answers = [_answer(scope["notices"], told, number) for _ in range(2)]
    monkeypatch.setenv("PAGER_SECRET", "whsec_" + "B" * 32)
    forged = _answer(scope["notices"], told, uuid.uuid4())

    assert [answer.status_code for answer in answers] == [204, 204]
    assert forged.status_code == 400
    assert capsys.readouterr().out == "job.failed 7\n"
