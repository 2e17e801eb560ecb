"""What does a search among jobs mean? Only what an index can answer.

A whole id, the first letters of one, the beginning of an agent's or connector's name,
or `key:value`. Words are joined by "and". No free text: it would read the whole table.
"""

from __future__ import annotations

import re
from uuid import UUID

from django.db.models import Q, QuerySet

from ..models import Agent, BuildJob, McpConnector
from ..states import JobStatus
from . import people

MOST_TARGETS = 200
HEX = re.compile(r"[0-9a-f]{4,32}")
KEYS = {
    "kind": "kind",
    "queue": "queue",
    "status": "status",
    "code": "error_code",
    "key": "serial_key",
}
KNOWN = (*KEYS, "owner", "agent", "connector", "worker")


def narrow(jobs: QuerySet[BuildJob], term: str) -> QuerySet[BuildJob]:
    """Return the jobs that a search means."""
    for word in term.split():
        jobs = jobs.filter(_meant(word))
    return jobs


def unknown_keys(term: str) -> list[str]:
    """Return the keys of a search that are none."""
    parts = [word.partition(":") for word in term.split()]
    return [key for key, colon, _value in parts if colon and key and key not in KNOWN]


def _meant(word: str) -> Q:
    key, colon, value = word.partition(":")
    if colon and key in KEYS:
        return Q(**{KEYS[key]: value})
    if colon and key == "owner":
        return Q(owner_id__in=[value, *people.keys_of(value)])
    if colon and key == "worker":
        return Q(status=JobStatus.IN_PROGRESS) & _id_range("worker", value)
    if colon and key in ("agent", "connector"):
        return _named(value) | _id_range(f"{key}_id", value)
    return _named(word) | _id_range("id", word)


def _named(text: str) -> Q:
    # Two small queries first: as subqueries under an OR they would hide the indexes.
    agents = Agent.objects.filter(name__startswith=text).values_list("pk", flat=True)
    connectors = McpConnector.objects.filter(name__startswith=text)
    return Q(agent_id__in=list(agents[:MOST_TARGETS])) | Q(
        connector_id__in=list(connectors.values_list("pk", flat=True)[:MOST_TARGETS])
    )


def _id_range(column: str, text: str) -> Q:
    """Return the ids that begin with these letters, as a range that an index serves."""
    digits = text.lower().replace("-", "")
    if not HEX.fullmatch(digits):
        return Q(pk__in=[])
    low, high = UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))
    return Q(**{f"{column}__gte": low, f"{column}__lte": high})
