"""How does a shell act on a job? One verb of the engine each, told in a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from ..exceptions import BuildQueueError, InvalidOption, Refused
from ..models import BuildJob, JobAction
from ..queue import verbs
from ..queue.outbox import wording
from ..queue.outcomes import Actor
from ..states import ActionStatus
from . import work_text
from .arguments import ACTS
from .finding import find_job
from .shown import moment

MOST_TOLD = 20


class SomeRefused(BuildQueueError):
    """Of several jobs some were refused; each was told in its own line."""


def act(do: str, job: BuildJob, actor: Actor, options: dict[str, Any]) -> Iterable[str]:
    """Apply a verb and say what the job is then."""
    given = {"actor": actor, "reason": options["reason"]}
    match do:
        case "priority":
            changed = verbs.change_priority(
                job.pk, priority=options["priority"], **given
            )
            return [f"{changed.pk} has priority {changed.priority}"]
        case "due":
            changed = verbs.change_due(job.pk, due_at=options["when"], **given)
            return [f"{changed.pk} is {changed.status}, due {moment(changed.due_at)}"]
        case "answer" if not options["fields"]:
            return work_text.question(job)
        case "answer":
            changed = verbs.answer(job.pk, values=_values(options["fields"]), **given)
        case _:
            changed = verbs.VERBS[ACTS[do][0]][0](job.pk, **given)
    return [f"{changed.pk} is {changed.status}"]


def _values(fields: list[tuple[str, str]]) -> dict[str, str]:
    values = dict(fields)
    if len(values) < len(fields):
        names = [name for name, _value in fields]
        twice = {name: "is given twice" for name in names if names.count(name) > 1}
        raise InvalidOption(twice)
    return values


def retry(typed: list[str], actor: Actor, reason: str) -> Iterator[str]:
    """Run jobs again, each by itself, and say of each what became of it."""
    jobs = [find_job(text) for text in typed]  # a mistake in one: none is touched
    answers = verbs.retry_many([job.pk for job in jobs], actor=actor, reason=reason)
    for each in answers:
        told = f"refused ({each.code}): {each.message}" if each.code else "is pending"
        yield f"{each.job_id} {told}"
        if each.code == "outcome_unknown":
            yield from _to_settle(each.job_id)
    if refused := sum(bool(each.code) for each in answers):
        raise SomeRefused(f"{refused} of {len(answers)} refused")


def _to_settle(job_id: UUID) -> Iterator[str]:
    """Yield what to type about each effect of which nobody knows how it went."""
    unknown = JobAction.objects.filter(
        job_id=job_id, status=ActionStatus.OUTCOME_UNKNOWN
    ).order_by("created_at", "id")
    for action in unknown[:MOST_TOLD]:
        yield f"  {wording.settle(action.pk)}"


def way_out(error: Exception) -> str:
    """Return the refusal with what to type about it, where that is known."""
    told = str(error)
    if isinstance(error, Refused) and error.code == "outcome_unknown":
        action = error.extra.get("action")
        return f"{told}\n  {wording.settle(action)}" if action else told
    return told
