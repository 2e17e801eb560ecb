"""When are two notices the same one? When they have the same key.

A key is unique per destination, so whatever writes a notice again writes nothing. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...destinations import NoticeEvent
from ...models import BuildJob, JobAction
from ...states import JobStatus


def of_end(job: BuildJob) -> str:
    """Return the key of a job's end: done once, failed and cancelled once an attempt.

    Cancelled twice without a run between, it has not changed for who was told.
    """
    if job.status == JobStatus.DONE:
        return f"{NoticeEvent.JOB_DONE}:{job.pk}"
    return f"job.{job.status}:{job.pk}:{job.attempt}"


def of_question(job: BuildJob, asked: Mapping[str, Any]) -> str:
    """Return the key of a question: one that is worded otherwise is another one."""
    return f"{NoticeEvent.INPUT_ASKED}:{job.pk}:{asked['key']}"


def of_action(job: BuildJob, action: JobAction, event: str) -> str:
    """Return the key of an action's event.

    Asked for approval anew, it has a new moment of expiry; of unknown outcome anew, its
    job has another attempt.
    """
    if event == NoticeEvent.OUTCOME_UNKNOWN:
        return f"{event}:{action.pk}:{job.attempt}"
    until = action.expires_at.timestamp() if action.expires_at else "open"
    return f"{event}:{action.pk}:{until}"
