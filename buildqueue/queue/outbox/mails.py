"""How is a notice sent by e-mail? By the host's own settings of Django.

The Message-ID is made of the notice's id: sent again, it is the same message to mail
servers and readers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.core.mail import EmailMessage

from ...destinations import NoticeEvent
from ...models import Notice


def send(notice: Notice, addresses: Iterable[str]) -> None:
    """Send the notice; raises what the mail backend raises."""
    message = EmailMessage(
        subject=_subject(notice), body=_text(notice.body), to=list(addresses)
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


def _text(told: dict[str, Any]) -> str:
    lines = [f"{told['type']} at {told['timestamp']}", ""]
    lines += _lines(told["data"], "")
    return "\n".join(lines) + "\n"


def _lines(facts: dict[str, Any], before: str) -> Iterable[str]:
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from _lines(value, f"{before}{name} ")
        elif value not in (None, "", []):
            yield f"{before}{name}: {value}"
