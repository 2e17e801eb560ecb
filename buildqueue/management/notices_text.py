"""How do notices look in a terminal, and how is one sent again?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ..models import Notice
from ..queue import outbox
from ..queue.outcomes import Actor
from ..states import NoticeStatus
from .finding import find_notice
from .shown import MOMENT, cut, moment, short


def notices(options: dict[str, Any], actor: Actor) -> Iterable[str]:
    """List the newest notices, or have one sent again."""
    if options["resend"] is None:
        return listing(options)
    notice = find_notice(options["resend"])
    outbox.resend(notice.pk, actor=actor, reason=options["reason"])
    return [f"{notice.pk} is pending: it is sent again, with the same id"]


def listing(options: dict[str, Any]) -> Iterator[str]:
    """Yield notices, the newest first."""
    rows = Notice.objects.defer("body").order_by("-created_at", "-id")
    if options["failed"]:
        rows = rows.filter(status=NoticeStatus.FAILED)
    if not options["json"]:
        head = f"{'id':<36}  {'status':<7}  {'event':<22}  {'to':<14}  {'job':<8}"
        yield f"{head}  {'tries':<5}  {'created':<{MOMENT}}  error"
    for notice in rows[: options["limit"]]:
        if options["json"]:
            yield json.dumps(_as_dict(notice), default=str)
        else:
            yield _line(notice)


def _line(notice: Notice) -> str:
    what = f"{notice.pk}  {notice.status:<7}  {notice.event:<22}"
    whom = f"{cut(notice.destination):<14}  {short(notice.job_id):<8}"
    when = f"{notice.tries:<5}  {moment(notice.created_at)}"
    return f"{what}  {whom}  {when}  {notice.error_msg}".rstrip()


def _as_dict(notice: Notice) -> dict[str, Any]:
    shown = (
        "id status event destination job_id tries created_at due_at sent_at error_msg"
    )
    return {name: getattr(notice, name) for name in shown.split()}
