"""What was enqueued in a test, and what was not?

Asks the table, whoever put the jobs there and whatever became of them. What does not fit
is told with the job that comes nearest, and with all there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, TypedDict, Unpack

from pydantic import BaseModel

from ..models import BuildJob
from ..queue import database, documents

Payload = Mapping[str, Any] | BaseModel
SHOWN: Final = 20  # jobs that a message lists
LONGEST: Final = 200  # characters of a payload in it


class Columns(TypedDict, total=False):
    """The columns of a job by which it can be told."""

    queue: str
    owner_id: str
    priority: int
    status: str
    due_at: datetime
    max_attempts: int
    serial_key: str | None
    dedupe_key: str | None
    requires: str | None
    parent: BuildJob | None


def enqueued(kind: str | None = None, **columns: Unpack[Columns]) -> list[BuildJob]:
    """Return the jobs of a kind, or all, in the order in which they were enqueued."""
    jobs = BuildJob.objects.using(database.alias()).order_by("seq")
    wanted: dict[str, Any] = {**columns}
    if kind is not None:
        wanted["kind"] = kind
    return list(jobs.filter(**wanted))


def assert_enqueued(
    kind: str | None = None,
    *,
    payload: Payload | None = None,
    count: int | None = 1,
    **columns: Unpack[Columns],
) -> list[BuildJob]:
    """Assert that so many jobs fit (with None: at least one), and return them.

    A payload fits when it has what is named, however deep; lists must be equal. A model
    names all of its fields.
    """
    wanted = _wanted(kind, payload, columns)
    jobs = enqueued()
    found = [job for job in jobs if not _differences(job, wanted)]
    if len(found) == count or (count is None and found):
        return found
    asked = "at least 1 job" if count is None else f"{count} job{'s' * (count != 1)}"
    told = [f"expected {asked} like {_told(wanted)}, found {len(found)}"]
    if not found:
        told += _nearest(jobs, wanted)
    raise AssertionError("\n".join([*told, *_listed(jobs)]))


def assert_not_enqueued(
    kind: str | None = None,
    *,
    payload: Payload | None = None,
    **columns: Unpack[Columns],
) -> None:
    """Assert that no job fits; without arguments, that there is none at all."""
    assert_enqueued(kind, payload=payload, count=0, **columns)


def _wanted(
    kind: str | None, payload: Payload | None, columns: Columns
) -> dict[str, Any]:
    wanted: dict[str, Any] = {} if kind is None else {"kind": kind}
    if isinstance(payload, BaseModel):
        payload = payload.model_dump(mode="json")
    if payload is not None:
        wanted["payload"] = dict(payload)
    return wanted | dict(columns)


def _differences(job: BuildJob, wanted: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for name, value in wanted.items():
        stored = getattr(job, name)
        if name == "payload":
            found += _within("payload", stored, value)
        elif stored != value:
            found.append(f"{name} is {stored!r}, not {value!r}")
    return found


def _within(path: str, stored: Any, wanted: Any) -> Iterator[str]:
    if isinstance(wanted, Mapping) and isinstance(stored, Mapping):
        for key, value in wanted.items():
            yield from _within(f"{path}.{key}", stored.get(key), value)
    elif not documents.fits(stored, wanted):
        yield f"{path} is {stored!r}, not {wanted!r}"


def _nearest(jobs: list[BuildJob], wanted: Mapping[str, Any]) -> list[str]:
    if not jobs or not wanted:
        return []
    # Of another kind everything differs; of those alike the latest was meant, if any.
    nearest = min(
        reversed(jobs),
        key=lambda job: (
            job.kind != wanted.get("kind", job.kind),
            len(_differences(job, wanted)),
        ),
    )
    return [f"nearest: {nearest}", *(f"    {d}" for d in _differences(nearest, wanted))]


def _told(wanted: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in wanted.items()) or "any"


def _listed(jobs: list[BuildJob]) -> list[str]:
    if not jobs:
        return ["nothing was enqueued"]
    lines = [f"enqueued ({len(jobs)}):"]
    for job in jobs[:SHOWN]:
        payload = repr(job.payload)
        if len(payload) > LONGEST:
            payload = payload[: LONGEST - 1] + "…"
        owner = f" owner={job.owner_id!r}" if job.owner_id else ""
        lines.append(f"    {job} {job.status} queue={job.queue!r}{owner} {payload}")
    return lines if len(jobs) <= SHOWN else [*lines, "    …"]
