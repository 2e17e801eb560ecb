"""How does the engine tell the outside? By rows, in the transaction of what happened.

If the process dies before the commit nothing has happened and nobody is told; after it
the notices are there, and a duty sends them. An event that no destination wants costs a
look at the settings and no statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ... import clock, conf
from ...destinations import NoticeEvent
from ...models import BuildJob, JobAction, Notice
from ...states import JobStatus
from .. import database, logs
from . import bodies, keys

if TYPE_CHECKING:
    from ..transitions import Change

OF_ENDS = {
    JobStatus.DONE: NoticeEvent.JOB_DONE,
    JobStatus.FAILED: NoticeEvent.JOB_FAILED,
    JobStatus.CANCELLED: NoticeEvent.JOB_CANCELLED,
}


def tell(event: str, job: BuildJob, *, key: str, body: Mapping[str, Any]) -> None:
    """Write a notice for each destination that wants the event, once per key.

    Call it inside the transaction of what is told: they are committed together.
    """
    wanting = [each.name for each in conf.get().notices if each.wants(event)]
    if not wanting:
        return
    told = logs.storable_json(dict(body))
    Notice.objects.using(database.alias()).bulk_create(
        (
            Notice(key=key, destination=name, event=event, job_id=job.pk, body=told)
            for name in wanting
        ),
        ignore_conflicts=True,
    )


def tell_change(job: BuildJob, change: Change) -> None:
    """Tell how a job ended; nothing when it has not.

    The job's own status counts, not the change's target: a final hook may have turned
    "done" into failed.
    """
    event = OF_ENDS.get(JobStatus(job.status))
    if event is None or not _is_wanted(event):
        return
    facts = bodies.of_job(job) | {"by": change.actor.label, "reason": change.reason}
    moment = job.completed_at or clock.now()
    tell(event, job, key=keys.of_end(job), body=bodies.body(event, moment, facts))


def tell_question(job: BuildJob, asked: Mapping[str, Any]) -> None:
    """Tell what a job asks a person; nothing when it waits for something else.

    `asked` is what the job keeps of its wait: for input, what `questions.stored` returned.
    """
    event = NoticeEvent.INPUT_ASKED
    if asked.get("for") == "input" and _is_wanted(event):
        facts = bodies.of_job(job) | bodies.of_question(asked)
        key = keys.of_question(job, asked)
        tell(event, job, key=key, body=bodies.body(event, clock.now(), facts))


def tell_action(job: BuildJob, action: JobAction, event: str) -> None:
    """Tell that an action waits for a decision, or that its outcome is unknown."""
    if _is_wanted(event):
        facts = bodies.of_job(job) | bodies.of_action(action)
        key = keys.of_action(job, action, event)
        tell(event, job, key=key, body=bodies.body(event, clock.now(), facts))


def _is_wanted(event: str) -> bool:
    return any(each.wants(event) for each in conf.get().notices)
