"""How does a notice get out? Taken by time, sent outside any transaction, then marked.

Taking a notice moves its due time ahead, in a statement of its own: nobody else sees it
until then, and no lock is held while the receiver answers. That moment is the fence of
the marking: who comes back after it, when another process has taken the notice, marks
nothing. If the process dies while sending, nobody knows whether the receiver has it: it
is due again after the hold, and sent again with the same id.
"""

from __future__ import annotations

import json
import logging
import time
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from ... import conf
from ...exceptions import Refused
from ...models import BuildJob, JobEvent, Notice
from ...models.expressions import ClockTimestamp
from ...states import EventKind, NoticeStatus
from .. import database, logs
from ..failures import Backoff
from ..outcomes import Actor
from . import mails, signing, webhooks

logger = logging.getLogger(__name__)

HOLD: Final = timedelta(seconds=60)  # longer than any one try should take
MOST_TRIES: Final = 15  # over about 17 hours
BACKOFF: Final = Backoff(base_seconds=5.0, max_seconds=6 * 3600.0)
LONGEST_ERROR: Final = 500

TAKE = """
UPDATE buildqueue_notice
SET due_at = clock_timestamp() + %s, tries = tries + 1
WHERE id = (
    SELECT id FROM buildqueue_notice
    WHERE status = 'pending' AND due_at <= statement_timestamp()
    ORDER BY due_at LIMIT 1
    FOR UPDATE SKIP LOCKED
)
RETURNING *
"""
NEXT = """
SELECT extract(epoch FROM min(due_at) - clock_timestamp())::float
FROM buildqueue_notice WHERE status = 'pending'
"""


def send_due(limit: int = 100) -> int:
    """Send what is due, at most so many tries; return how many were taken.

    Call it outside any transaction. Any number of processes may do it at once: each
    notice is sent by one of them.
    """
    sent = 0
    for _ in range(limit):
        taken = list(Notice.objects.raw(TAKE, [HOLD], using=database.alias()))
        if not taken:
            break
        sent += _deliver(taken[0])
    return sent


def seconds_to_next() -> float | None:
    """Return when the next notice is due, in seconds; None when none waits."""
    with database.connection().cursor() as cursor:
        cursor.execute(NEXT)
        found: float | None = cursor.fetchone()[0]
    return found


def resend(notice_id: UUID, *, actor: Actor, reason: str = "") -> None:
    """Have a notice sent again, with the same id, that was sent or given up.

    Refused with `not_found`, and with `wrong_status` while it waits to be sent.
    """
    with database.atomic():
        notices = Notice.objects.using(database.alias())
        notice = notices.select_for_update().filter(pk=notice_id).first()
        if notice is None:
            raise Refused("not_found", f"There is no notice {notice_id}.", status=404)
        if notice.status == NoticeStatus.PENDING:
            waits = "The notice waits to be sent: it needs nothing."
            raise Refused("wrong_status", waits, status=409)
        notices.filter(pk=notice_id).update(
            status=NoticeStatus.PENDING, due_at=ClockTimestamp(), tries=0, sent_at=None
        )
        _record(notice, actor, reason)


def _record(notice: Notice, actor: Actor, reason: str) -> None:
    jobs = BuildJob.objects.using(database.alias())
    job = jobs.filter(pk=notice.job_id).first() if notice.job_id else None
    if job is None:
        return  # retention was faster than the person: the notice has no timeline
    JobEvent.objects.using(database.alias()).create(
        job_id=job.pk,
        attempt=job.attempt,
        kind=EventKind.NOTE,
        title=f"notice {notice} sent again"[:200],
        actor=actor.label,
        actor_id=actor.id,
        reason=logs.storable(reason),
    )


def _deliver(notice: Notice) -> bool:
    try:
        _send(notice)
    except Exception as error:  # of a receiver or a mail backend: the next try may do
        _note_failure(notice, error)
        return False
    return _mark(
        notice, status=NoticeStatus.SENT, sent_at=ClockTimestamp(), error_msg=""
    )


def _send(notice: Notice) -> None:
    found = [d for d in conf.get().notices if d.name == notice.destination]
    if not found:
        raise webhooks.NotTaken("this worker's settings name no such destination")
    [destination] = found
    if destination.webhook and destination.secret:
        content = json.dumps(notice.body, separators=(",", ":")).encode()
        proof = signing.headers(
            notice.pk, int(time.time()), content, destination.secret
        )
        webhooks.post(destination.webhook, proof, content)
    else:
        mails.send(notice, destination.email)


def _note_failure(notice: Notice, error: Exception) -> None:
    known = isinstance(error, webhooks.NotTaken)
    said = str(error) if known else f"{type(error).__name__}: {error}"
    said = logs.storable(said)[:LONGEST_ERROR]
    given_up = notice.tries >= MOST_TRIES
    if given_up:
        _mark(notice, status=NoticeStatus.FAILED, error_msg=said)
    else:
        delay = timedelta(seconds=BACKOFF.delay(notice.tries))
        _mark(notice, due_at=ClockTimestamp() + delay, error_msg=said)
    # A receiver that is away is told once a notice, and when it is given up.
    first = logging.WARNING if notice.tries == 1 else logging.DEBUG
    logger.log(
        logging.ERROR if given_up else first,
        "notice %s of %s for %s %s, try %d: %s",
        notice.pk,
        notice.event,
        notice.destination,
        "given up" if given_up else "not sent",
        notice.tries,
        said,
    )


def _mark(notice: Notice, **values: Any) -> bool:
    """Write how a try went, unless somebody else has taken the notice since."""
    mine = Notice.objects.using(database.alias()).filter(
        pk=notice.pk, status=NoticeStatus.PENDING, due_at=notice.due_at
    )
    return mine.update(**values) == 1
