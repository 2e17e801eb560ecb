"""What does a notice say? As Standard Webhooks has it: type, timestamp, data.

Facts to act upon, nothing secret: neither payload nor result, and of an action its title,
not its content. Pure: values in, values out.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from ...models import BuildJob, JobAction
from .. import questions

LONGEST_TEXT: Final = 2_000


def body(event: str, moment: datetime, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is sent of an event."""
    return {
        "type": str(event),
        "timestamp": moment.isoformat(),
        "data": dict(facts),
    }


def of_job(job: BuildJob) -> dict[str, Any]:
    """Return what every notice says of its job."""
    error = {"code": job.error_code, "message": (job.error_msg or "")[:LONGEST_TEXT]}
    return {
        "job": str(job.pk),
        "kind": job.kind,
        "queue": job.queue,
        "status": str(job.status),
        "owner": job.owner_id,
        "attempt": job.attempt,
        "agent": _text(job.agent_id),
        "connector": _text(job.connector_id),
        "parent": _text(job.parent_id),
        "created_at": job.created_at.isoformat(),
        "completed_at": job.completed_at.isoformat() if job.completed_at else None,
        "error": error if job.error_code else None,
    }


def of_question(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is said of a question, as the job keeps it."""
    return {
        "question": {
            "text": asked["question"][:LONGEST_TEXT],
            "fields": [
                {
                    "name": name,
                    "type": field.type,
                    "label": field.label,
                    "help": field.help,
                    "required": field.required,
                    "choices": list(field.choices),
                }
                for name, field in questions.fields_of(asked).items()
            ],
        }
    }


def of_action(action: JobAction) -> dict[str, Any]:
    """Return what is said of an action."""
    return {
        "action": {
            "id": str(action.pk),
            "key": action.key,
            "title": action.title,
            "status": str(action.status),
            "expires_at": action.expires_at.isoformat() if action.expires_at else None,
        }
    }


def _text(identifier: UUID | None) -> str | None:
    return str(identifier) if identifier else None
