"""What may people do to a job? Each verb names its actor and reason, and is recorded.

The same functions serve the admin, the API and the command line, so the three cannot
drift. A verb on a running job takes its lease away at once: the row is what the person
wanted, the late report of the process hits nothing, and the worker is told to end it.
If the caller dies before the commit nothing happened; after it the worker finds the
revoked lease within its next look, told or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from django.db import IntegrityError
from django.db.models import F
from django.db.models.functions import Greatest, Now

from .. import states
from ..exceptions import Refused
from ..models import BuildJob
from ..states import JobStatus, Transition
from . import database, handlers, transitions
from .outcomes import Actor
from .transitions import Change

Verb = Callable[..., BuildJob]


def cancel(job_id: UUID, *, actor: Actor, reason: str = "") -> BuildJob:
    """Stop an open job for good; InvalidTransition when it has ended."""
    values = {"error_code": "cancelled", "error_msg": reason or "cancelled"}
    return _apply(job_id, states.CANCEL, JobStatus.CANCELLED, actor, reason, values)


def release(job_id: UUID, *, actor: Actor, reason: str = "") -> BuildJob:
    """Take a running job from its worker; it runs again, and nothing is counted."""
    return _apply(job_id, states.RELEASE, JobStatus.PENDING, actor, reason, {})


def force_fail(job_id: UUID, *, actor: Actor, reason: str = "") -> BuildJob:
    """Declare an open job failed; InvalidTransition when it has ended."""
    values = {"error_code": "force_failed", "error_msg": reason or "declared failed"}
    return _apply(job_id, states.FORCE_FAIL, JobStatus.FAILED, actor, reason, values)


def retry(job_id: UUID, *, actor: Actor, reason: str = "") -> BuildJob:
    """Run a failed or cancelled job again, with one more try than it has used.

    Refused when the kind's `on_reopen` says no, for instance of a deleted agent, and
    when another open job holds its dedupe key by now.
    """
    with database.atomic():
        values = {
            "due_at": Now(),
            "error_code": None,
            "error_msg": None,
            "result": None,
            "hook_pending": False,
            "max_attempts": Greatest(
                F("max_attempts"), F("failures") + F("crashes") + 1
            ),
        }
        try:
            job = _apply(job_id, states.RETRY, JobStatus.PENDING, actor, reason, values)
        except IntegrityError as error:
            if "build_jobs_one_open_per_key" not in str(error):
                raise
            raise Refused(
                "duplicate_job",
                "Another open job has the same dedupe key: cancel it, or let it end.",
                status=409,
            ) from None
        found = handlers.hooks_of(job.kind)
        if found and found.on_reopen:
            found.on_reopen(job)
    return job


def _apply(
    job_id: UUID,
    transition: Transition,
    target: JobStatus,
    actor: Actor,
    reason: str,
    values: Mapping[str, Any],
) -> BuildJob:
    change = Change(
        transition=transition,
        target=target,
        actor=actor,
        reason=reason,
        values=dict(values),
    )
    return transitions.apply(job_id, change)


# What the edges offer: name -> (verb, its transition, the permission it needs).
VERBS: dict[str, tuple[Verb, Transition, str]] = {
    "retry": (retry, states.RETRY, "buildqueue.retry_buildjob"),
    "cancel": (cancel, states.CANCEL, "buildqueue.cancel_buildjob"),
    "release": (release, states.RELEASE, "buildqueue.release_buildjob"),
    "force_fail": (force_fail, states.FORCE_FAIL, "buildqueue.force_fail_buildjob"),
}


def allowed(job: BuildJob) -> list[str]:
    """Return the names of the verbs that the job's status allows."""
    return [name for name, (_, t, _p) in VERBS.items() if t.allowed_from(job.status)]
