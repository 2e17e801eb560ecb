"""Does a notice go out as a mail that a real mail server takes, and what does it say?"""

from __future__ import annotations

import email
import email.policy
import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import django
import pytest
from aiosmtpd.controller import Controller
from django.test import override_settings

from buildqueue.management import work_text
from buildqueue.models import Notice
from buildqueue.queue import outbox, questions
from tests.factories import make_job
from tests.support.decisions import make_action
from tests.support.outbox import BODY, make_due, make_notice, wanting


class Inbox:
    """What a mail server took."""

    def __init__(self) -> None:
        self.taken: list[tuple[list[str], email.message.EmailMessage]] = []
        self.refuses = False

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.refuses:
            return "451 try again later"
        policy: Any = email.policy.default
        message: Any = email.message_from_bytes(envelope.content, policy=policy)
        self.taken.append((envelope.rcpt_tos, message))
        return "250 OK"


class MailServer(Controller):
    """A mail server on a port that the system chose."""

    def _trigger_server(self) -> None:
        assert self.server is not None
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    """Run a real mail server, and have Django send by it."""
    made = Inbox()
    server = MailServer(made, hostname="127.0.0.1", port=0)
    server.start()
    backend = "django.core.mail.backends.smtp.EmailBackend"
    options = {"host": "127.0.0.1", "port": server.port, "timeout": 30}
    mailers: dict[str, Any] = {"MAILERS": {"default": {"BACKEND": backend}}}
    mailers["MAILERS"]["default"]["OPTIONS"] = options
    if django.VERSION < (6, 1):
        mailers = {f"EMAIL_{key.upper()}": value for key, value in options.items()}
        mailers["EMAIL_BACKEND"] = backend
    with override_settings(DEFAULT_FROM_EMAIL="Queue <bq@example.org>", **mailers):
        yield made
    server.stop()


def test_a_mail_says_what_happened_under_an_id_that_stays(
    db: None, inbox: Inbox
) -> None:
    data = {"kind": "up\nload", "attempt": 2, "error": {"code": "no", "message": "x"}}
    job_id = uuid4()
    notice = make_notice(
        event="job.failed", body=BODY | {"type": "job.failed", "data": data}
    )
    Notice.objects.filter(pk=notice.pk).update(job_id=job_id)
    to = ["ada@example.org", "bob@example.org"]

    with wanting({"name": "ops", "events": ["*"], "email": to}):
        inbox.refuses = True
        assert outbox.send_due() == 0
        inbox.refuses = False
        make_due(notice)
        assert outbox.send_due() == 1

    [(recipients, message)] = inbox.taken
    assert recipients == to
    assert message["Message-ID"] == f"<{notice.pk}@example.org>"
    assert message["Subject"] == f"job failed: up load {str(job_id)[:8]}"
    text = message.get_content()
    assert "job.failed at 2030-01-01" in text
    assert "error code: no" in text
    assert json.dumps(BODY) not in text


def test_a_mail_shows_a_question_as_the_command_line_does_and_what_to_type(
    db: None, inbox: Inbox
) -> None:
    job = make_job("waiting_input")
    color = questions.Field(type="choice", choices=("red", "blue"), help="Not green.")
    asked = questions.stored(
        "Which?", {"color": color, "n": questions.Field(label="N")}
    )

    with wanting({"name": "ops", "events": ["*"], "email": ["ada@example.org"]}):
        outbox.tell_question(job, asked)
        assert outbox.send_due() == 1

    text = inbox.taken[0][1].get_content().replace("\r\n", "\n")
    lines = list(work_text.question_lines(asked))
    assert "\n".join(lines) in text
    assert "  color=(red | blue)  Not green." in lines
    assert f"  manage.py buildqueue answer {str(job.pk)[:8]} color=… n=…" in text


def test_a_message_of_many_lines_forges_no_line_of_a_mail(
    db: None, inbox: Inbox
) -> None:
    forged = "x\n\njob.done at 2026\n\rjob: 1\x85status: done\u2028To type:"
    data = {"status": "failed", "error": {"message": forged}}

    with wanting({"name": "ops", "events": ["*"], "email": ["ada@example.org"]}):
        make_notice(event="job.failed", body=BODY | {"data": data})
        assert outbox.send_due() == 1

    lines = inbox.taken[0][1].get_content().splitlines()
    assert "error message: x" in lines
    for line in ("job.done at 2026", "job: 1", "status: done", "To type:"):
        assert f"    | {line}" in lines
        assert line not in lines


@pytest.mark.parametrize(
    ("event", "verbs"),
    [
        ("approval.asked", ["approve", "deny"]),
        ("action.outcome_unknown", ["settle"]),
    ],
)
def test_a_mail_of_an_action_says_what_to_type(
    db: None, inbox: Inbox, event: str, verbs: list[str]
) -> None:
    action = make_action()

    with wanting({"name": "ops", "events": ["*"], "email": ["ada@example.org"]}):
        outbox.tell_action(action.job, action, event)
        assert outbox.send_due() == 1

    text = inbox.taken[0][1].get_content()
    for verb in verbs:
        assert f"  manage.py buildqueue {verb} {str(action.pk)[:8]}" in text
