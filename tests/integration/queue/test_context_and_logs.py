"""What can a handler write while it runs, and what once its lease is gone?"""

from __future__ import annotations

import uuid

import pytest

from buildqueue.exceptions import LostLeaseError
from buildqueue.models import BuildJob, JobEvent, LogChunk
from buildqueue.queue import logs, verbs
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import Actor
from buildqueue.states import JobStatus
from tests.factories import make_job

pytestmark = pytest.mark.django_db


def _context(job: BuildJob) -> Context:
    assert job.lease_id is not None
    return Context(job=job, lease_id=job.lease_id)


def _told(job: BuildJob) -> list[tuple[str, str]]:
    events = JobEvent.objects.filter(job_id=job.pk).order_by("id")
    return list(events.values_list("kind", "title"))


def test_a_step_is_told_when_it_begins_and_when_it_ends() -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    ctx = _context(job)

    with ctx.step("build"):
        ctx.note("compiled", files=3)

    assert _told(job) == [
        ("step_started", "build"),
        ("note", "compiled"),
        ("step_finished", "build"),
    ]
    note = JobEvent.objects.get(kind="note")
    assert note.detail == {"files": 3}
    assert (note.run, note.attempt) == (job.lease_id, 1)


def test_a_step_that_raises_is_told_as_failed() -> None:
    job = make_job(JobStatus.IN_PROGRESS)

    with pytest.raises(ValueError, match="broken"), _context(job).step("build"):
        raise ValueError("broken")

    assert _told(job) == [("step_started", "build"), ("step_failed", "build")]
    assert JobEvent.objects.get(kind="step_failed").detail == {"error": "ValueError"}


def test_a_run_whose_lease_was_taken_writes_nothing_more() -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    ctx = _context(job)
    verbs.release(job.pk, actor=Actor(label="anna"), reason="it hangs")
    before = _told(job)

    with pytest.raises(LostLeaseError):
        ctx.check_lease()
    with pytest.raises(LostLeaseError):
        ctx.note("late")
    with pytest.raises(LostLeaseError), ctx.step("late"):
        pytest.fail("a step began without a lease")

    assert _told(job) == before


def test_a_lease_lost_inside_a_step_ends_it_untold() -> None:
    job = make_job(JobStatus.IN_PROGRESS)
    ctx = _context(job)

    def lose_the_lease() -> None:
        verbs.cancel(job.pk, actor=Actor(label="anna"))
        ctx.check_lease()

    # The person's transaction is another one than the step's.
    with pytest.raises(LostLeaseError), ctx.step("build", transaction=False):
        lose_the_lease()

    assert [kind for kind, _ in _told(job)] == ["step_started", "cancel"]


def test_texts_that_postgresql_cannot_keep_are_kept_as_well_as_can_be() -> None:
    job = make_job(JobStatus.IN_PROGRESS)

    _context(job).note("nul \x00", what="lone \ud800", where=object())

    [(_, title)] = _told(job)
    assert title.startswith("nul ")


def _chunk(job: uuid.UUID, run: uuid.UUID, attempt: int, seq: int) -> LogChunk:
    return LogChunk(
        job_id=job,
        run_id=run,
        attempt=attempt,
        seq=seq,
        stream="stdout",
        text=f"{attempt}.{seq}",
    )


def test_a_reader_gets_every_chunk_once_and_in_order() -> None:
    job, runs = uuid.uuid4(), [uuid.uuid4(), uuid.uuid4()]
    chunks = [
        _chunk(job, run, attempt, seq)
        for attempt, run in enumerate(runs, start=1)
        for seq in range(1, 6)
    ]
    logs.write(reversed(chunks))
    logs.write(chunks)  # a writer that lost its connection repeats

    read: list[str] = []
    place = logs.Position()
    while found := logs.read(job, place, limit=3):
        read += [chunk.text for chunk in found]
        place = logs.position_of(found[-1])

    assert read == [chunk.text for chunk in chunks]
    assert [c.text for c in logs.tail(job, limit=2)] == ["2.4", "2.5"]
