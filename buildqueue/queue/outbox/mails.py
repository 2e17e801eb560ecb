"""How is a notice sent by e-mail? By the host's own settings of Django.

A mail tells what a person may type, and shows a question as the command line does. The
Message-ID is made of the notice's id: sent again, it is the same message to
mail servers and readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.core.mail import EmailMessage

from ...destinations import NoticeEvent
from ...models import Notice
from . import wording

INDENT = "\n    | "  # before each further line of a text that has many


def send(notice: Notice, addresses: Iterable[str]) -> None:
    """Send the notice; raises what the mail backend raises."""
    message = EmailMessage(
        subject=_subject(notice), body=_text(notice), to=list(addresses)
    )
    domain = message.from_email.rpartition("@")[2].strip(" >") or "localhost"
    message.extra_headers["Message-ID"] = f"<{notice.pk}@{domain}>"
    message.send()


def _subject(notice: Notice) -> str:
    facts = notice.body["data"]
    known = notice.event in NoticeEvent.values
    what = str(NoticeEvent(notice.event).label) if known else notice.event
    words = f"{what}: {facts.get('kind', '')} {str(notice.job_id)[:8]}"
    return " ".join(words.split())[:200]  # a kind may hold anything, line breaks too


def _text(notice: Notice) -> str:
    told = notice.body
    facts = dict(told["data"])
    question = facts.pop("question", None)
    lines = [f"{told['type']} at {told['timestamp']}", ""]
    if question:
        lines += [question["text"], *wording.field_lines(question["fields"]), ""]
    lines += _lines(facts, "")
    if typed := _commands(notice.event, facts, question):
        lines += ["", "To type:", *(f"  {each}" for each in typed)]
    return "\n".join(map(_one_fact, lines)) + "\n"


def _one_fact(line: str) -> str:
    """Return the line so that what a job wrote in it does not look like one of ours."""
    return INDENT.join(part for part in line.splitlines() if part.strip())


def _commands(
    event: str, facts: Mapping[str, Any], question: Mapping[str, Any] | None
) -> list[str]:
    """Return what a person may type about it; nothing when there is nothing to do."""
    job, action = facts.get("job"), facts.get("action") or {}
    if event == NoticeEvent.INPUT_ASKED and question and job:
        return [wording.answer(job, (field["name"] for field in question["fields"]))]
    if event == NoticeEvent.APPROVAL_ASKED and action:
        return [wording.approve(action["id"]), wording.deny(action["id"])]
    if event == NoticeEvent.OUTCOME_UNKNOWN and action:
        return [wording.settle(action["id"])]
    if event == NoticeEvent.JOB_FAILED and job:
        return [wording.show(job)]
    return []


def _lines(facts: Mapping[str, Any], before: str) -> Iterable[str]:
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _lines(value, f"{before}{name} ")
        elif value not in (None, "", []):
            yield f"{before}{name}: {value}"
