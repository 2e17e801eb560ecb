"""Which row is meant by what was typed? An id, or the beginning of one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast

from ..exceptions import BuildQueueError
from ..models import BuildJob, JobAction, Notice
from .typed import words

SHORTEST_PREFIX = 4


class NotFound(BuildQueueError):
    """Nothing, or more than one, answers to what was typed."""


def find_job(text: str) -> BuildJob:
    """Return the job with this id or beginning of one."""
    job: BuildJob = find(BuildJob.objects.all(), "job", text)
    return job


def find_action(text: str) -> JobAction:
    """Return the action with this id or beginning of one."""
    rows = JobAction.objects.select_related("job")
    action: JobAction = find(rows, "action", text)
    return action


def find_notice(text: str) -> Notice:
    """Return the notice with this id or beginning of one."""
    notice: Notice = find(Notice.objects.defer("body"), "notice", text)
    return notice


def find(rows: QuerySet[Any], word: str, typed: str) -> Any:
    """Return the one row with this id or beginning of one; `word` says what it is."""
    text = words(typed)
    try:
        found = list(rows.filter(pk=UUID(text)))
    except ValueError:
        if len(text) < SHORTEST_PREFIX:
            raise NotFound(f"{text!r} is too short: 4 characters at least") from None
        named = rows.annotate(text=Cast("id", TextField()))
        found = list(named.filter(text__startswith=text.lower())[:2])
    if len(found) == 1:
        return found[0]
    what = f"more than one {word} begins" if found else f"no {word} begins"
    raise NotFound(f"{what} with {text!r}")
