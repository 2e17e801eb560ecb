"""Which moments can a host listen to?

Sent after the commit, robustly: a receiver that raises changes nothing, and nothing in
buildqueue depends on one. A signal can be lost with its process; the database is the
truth.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from django.db import transaction
from django.dispatch import Signal

if TYPE_CHECKING:
    from .models import BuildJob

logger = logging.getLogger(__name__)

job_enqueued = Signal()  # job
job_changed = Signal()  # job, previous (a status)


def _send(signal: Signal, **facts: object) -> None:
    for receiver, answer in signal.send_robust(sender=None, **facts):
        if isinstance(answer, Exception):
            logger.error(
                "receiver %r of a job signal raised", receiver, exc_info=answer
            )


def job_enqueued_after_commit(job: BuildJob, *, using: str) -> None:
    """Tell listeners, once the transaction is through, that the job is there."""
    if job_enqueued.receivers:
        transaction.on_commit(
            partial(_send, job_enqueued, job=job), using=using, robust=True
        )


def job_changed_after_commit(job: BuildJob, previous: str, *, using: str) -> None:
    """Tell listeners, once the transaction is through, that the status changed."""
    if job_changed.receivers:
        transaction.on_commit(
            partial(_send, job_changed, job=job, previous=previous),
            using=using,
            robust=True,
        )
