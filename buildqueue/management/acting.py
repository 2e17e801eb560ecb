"""How does a shell act on a job? One verb of the engine each, told in a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..exceptions import BuildQueueError, InvalidOption
from ..models import BuildJob
from ..queue import verbs
from ..queue.outcomes import Actor
from . import work_text
from .arguments import ACTS
from .finding import find_job


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
            return [f"{changed.pk} is {changed.status}, due {changed.due_at:%F %T %Z}"]
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
    if refused := sum(bool(each.code) for each in answers):
        raise SomeRefused(f"{refused} of {len(answers)} refused")
