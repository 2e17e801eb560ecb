"""When are two notices the same one? When they have the same key.

A key is unique per destination, so whatever writes a notice again writes nothing. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...destinations import NoticeEvent
from ...models import BuildJob, JobAction


def of_end(job: BuildJob) -> str:
    """Return the key of a job's end: each once an attempt.

    Cancelled twice without a run between, it has not changed for who was told. Done is
    told again when its result was missing, and an attempt after that is done.
    """
    return f"job.{job.status}:{job.pk}:{job.attempt}"


def of_question(job: BuildJob, asked: Mapping[str, Any]) -> str:
    """Return the key of a question: worded otherwise, or asked by another attempt.

    The answer to the last one did not do, whatever the words: who was told must know.
    """
    return f"{NoticeEvent.INPUT_ASKED}:{job.pk}:{job.attempt}:{asked['key']}"


def of_action(job: BuildJob, action: JobAction, event: str) -> str:
    """Return the key of an action's event.

    Asked for approval anew, it has a new moment of expiry; of unknown outcome anew, its
    job has another attempt.
    """
    if event == NoticeEvent.OUTCOME_UNKNOWN:
        return f"{event}:{action.pk}:{job.attempt}"
    until = action.expires_at.timestamp() if action.expires_at else "open"
    return f"{event}:{action.pk}:{until}"
