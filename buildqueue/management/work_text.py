"""How do a job's question, actions, progress and children look in a terminal?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from ..exceptions import InvalidTransition
from ..models import BuildJob, Checkpoint, JobAction, JobProgress
from ..queue import questions, records
from ..queue.outbox import wording
from ..states import JobStatus
from .shown import MOMENT, moment, short

MOST = 100


# -- what it asks ----------------------------------------------------------------------


def asked_by(job: BuildJob, progress: JobProgress | None) -> Mapping[str, Any] | None:
    """Return what a job that waits for an answer asks."""
    waits = progress.waits_for if progress else None
    if job.status != JobStatus.WAITING_INPUT or not isinstance(waits, Mapping):
        return None
    return waits


def question(job: BuildJob) -> Iterator[str]:
    """Yield what a job asks, and how it is answered."""
    asked = asked_by(job, records.progress_of(job.pk))
    if asked is None:
        raise InvalidTransition(job.pk, "answer", job.status)
    yield from question_lines(asked)


def question_lines(asked: Mapping[str, Any]) -> Iterator[str]:
    """Yield a question and the fields of its answer."""
    yield str(asked["question"])
    fields = questions.fields_of(asked)
    told = ({"name": name, **asdict(field)} for name, field in fields.items())
    yield from wording.field_lines(told)


# -- what it wants to do outside -------------------------------------------------------


def listing(job: BuildJob | None, options: dict[str, Any]) -> Iterator[str]:
    """Yield actions, the newest first; of one job with their content."""
    rows = JobAction.objects.order_by("-created_at", "-id")
    rows = rows.filter(job=job) if job else rows
    if options["status"]:
        rows = rows.filter(status=options["status"])
    if not (options["json"] or job):
        yield f"{'id':<36}  {'status':<15}  {'job':<8}  {'proposed':<{MOMENT}}  title"
    for action in rows[: options["limit"]]:
        if options["json"]:
            yield json.dumps(action_dict(action), default=str)
        elif job:
            yield from action_lines(action)
        else:
            yield action_line(action)


def action_line(action: JobAction) -> str:
    """Return an action in a line."""
    proposed = moment(action.created_at)
    told = f"{action.pk}  {action.status:<15}  {short(action.job_id)}  {proposed}"
    return f"{told}  {action.title}"


def action_lines(action: JobAction) -> Iterator[str]:
    """Yield an action with its content, and the hash that a decision is bound to."""
    yield action_line(action)
    content = json.dumps(action.content, indent=2, ensure_ascii=False)
    yield from (f"  {line}" for line in content.splitlines())
    yield f"  hash {action.content_hash}"
    if action.status == "awaiting_review" and action.expires_at:
        yield f"  expires {moment(action.expires_at)}"
    if action.decided_by:
        yield f"  decided by {action.decided_by}  {action.reason}".rstrip()
    if action.settled_by:
        yield f"  settled by {action.settled_by}  {action.settled_reason}".rstrip()
    if action.error_msg:
        yield f"  error {action.error_msg}"
    if action.receipt is not None:
        yield f"  receipt {json.dumps(action.receipt, ensure_ascii=False)}"


def action_dict(action: JobAction) -> dict[str, Any]:
    """Return an action as data."""
    shown = (
        "id job_id key title content content_hash status needs_review expires_at "
        "attempt created_at decided_at decided_by reason settled_at settled_by "
        "settled_reason started_at ended_at receipt "
        "error_msg"
    )
    return {name: getattr(action, name) for name in shown.split()}


# -- how far it is ---------------------------------------------------------------------


def sections(job: BuildJob) -> Iterator[tuple[str, list[str]]]:
    """Yield the title and lines of each section that has something."""
    progress = records.progress_of(job.pk)
    if asked := asked_by(job, progress):
        yield "asks", list(question_lines(asked))
    yield "progress", list(_progress_lines(progress))
    actions = JobAction.objects.filter(job=job).order_by("created_at", "id")
    yield "actions", [action_line(action) for action in actions[:MOST]]
    steps = Checkpoint.objects.filter(job=job).order_by("id")
    yield "steps done", [_step_line(step) for step in steps[:MOST]]
    yield "children", [_child_line(child) for child in _children(job)]


def as_dict(job: BuildJob) -> dict[str, Any]:
    """Return the same as data."""
    progress = records.progress_of(job.pk)
    asked = asked_by(job, progress)
    fields = questions.fields_of(asked) if asked else {}
    steps = Checkpoint.objects.filter(job=job).order_by("id")
    actions = JobAction.objects.filter(job=job).order_by("created_at", "id")
    return {
        "question": asked
        and {
            "question": asked["question"],
            "fields": {name: asdict(field) for name, field in fields.items()},
        },
        "progress": progress
        and {
            name: getattr(progress, name)
            for name in ("done", "total", "message", "updated_at")
        },
        "actions": [action_dict(action) for action in actions[:MOST]],
        "steps_done": [
            {"step": step.step, "attempt": step.attempt, "at": step.finished_at}
            for step in steps[:MOST]
        ],
        "parent": job.parent_id,
        "children": [
            {"id": child.pk, "kind": child.kind, "status": child.status}
            for child in _children(job)
        ],
    }


def _progress_lines(progress: JobProgress | None) -> Iterator[str]:
    if progress is None or (progress.done is None and not progress.message):
        return
    counted = "" if progress.done is None else str(progress.done)
    if counted and progress.total is not None:
        counted = f"{counted} of {progress.total}"
    told = "  ".join(filter(None, (counted, progress.message)))
    yield f"{moment(progress.updated_at)}  {told}"


def _step_line(step: Checkpoint) -> str:
    return f"{moment(step.finished_at)}  attempt {step.attempt}  {step.step}"


def _children(job: BuildJob) -> list[BuildJob]:
    children = BuildJob.objects.filter(parent_id=job.pk).defer("payload", "result")
    return list(children.order_by("seq")[:MOST])


def _child_line(child: BuildJob) -> str:
    return f"{child.pk}  {child.status:<16}  {child.kind}".rstrip()
