"""Does every effect happen once when processes and workers die at the worst moments?"""

from __future__ import annotations

import itertools
import random
import signal
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.utils import timezone

from buildqueue.exceptions import LostLeaseError, Refused
from buildqueue.models import BuildJob, Checkpoint, JobAction, JobEvent, JobRun
from buildqueue.queue import actions, enqueueing, verbs
from buildqueue.queue.context import Context
from buildqueue.queue.outcomes import Actor
from buildqueue.states import ActionStatus, EventKind, JobStatus, RunOutcome
from tests.host.jobs import Probe
from tests.host.models import Effect
from tests.host.stepped import POINTS, Document, Ledger, Posting
from tests.support.attempts import elsewhere, run_of, taken_over
from tests.support.jobs import runs, wait_for
from tests.support.processes import Workers
from tests.support.receiver import receiving
from tests.support.waiting import wait_until

ANNA = Actor(label="anna")
SEED = 20_240_517  # another one is another set of moments, and must do as well


def _ledgers(count: int, *, attempts: int = 100, **fields: Any) -> list[BuildJob]:
    return [
        enqueueing.enqueue(
            Ledger(label=f"job {number:02}", seed=SEED, **fields),
            max_attempts=attempts,
        )
        for number in range(count)
    ]


def _left() -> list[str]:
    jobs = BuildJob.objects.exclude(status=JobStatus.DONE)
    return [f"{job} {job.status} {job.error_msg}" for job in jobs]


def _assert_each_effect_once(jobs: list[BuildJob], steps: int) -> None:
    numbers = itertools.product(range(len(jobs)), range(steps))
    labels = [f"job {job:02} {step:02}" for job, step in numbers]
    found = Counter(Effect.objects.values_list("label", flat=True))
    assert found == Counter(labels)
    for job in jobs:
        done = Checkpoint.objects.filter(job_id=job.pk).order_by("id")
        assert done.count() == steps
        by = dict(done.values_list("step", "attempt"))
        assert by == dict(
            Effect.objects.filter(label__in=list(by)).values_list("label", "attempt")
        )
        assert list(by) == sorted(by)
        finished = JobEvent.objects.filter(job_id=job.pk, kind="step_finished")
        assert sorted(finished.values_list("title", flat=True)) == sorted(by)


# -- steps -----------------------------------------------------------------------------


@pytest.mark.slow
def test_two_hundred_kills_around_the_commit_leave_each_effect_once(
    workers: Workers,
) -> None:
    jobs = _ledgers(20, steps=20, deaths=10)
    workers.start("--slots", "4", ready=False)

    wait_until(lambda: not _left(), timeout=240, message=_left)

    crashed = JobRun.objects.filter(outcome=RunOutcome.CRASHED)
    assert crashed.count() == 200
    assert set(crashed.values_list("exit_signal", flat=True)) == {signal.SIGKILL}
    notes = JobEvent.objects.filter(kind="note").values_list("title", flat=True)
    points = Counter(notes)
    assert set(points) == {f"dies {point}" for point in POINTS}
    assert sum(points.values()) == 200
    _assert_each_effect_once(jobs, 20)


@pytest.mark.slow
def test_jobs_of_many_steps_outlive_ten_killed_workers_and_a_lost_database(
    workers: Workers,
) -> None:
    jobs = _ledgers(20, steps=10, pause_seconds=0.05)
    chance = random.Random(SEED)
    alive = [workers.start("--slots", "2", ready=False) for _ in range(2)]

    for round_ in range(1, 11):
        least = round_ * 18 - 8
        wait_until(lambda least=least: Effect.objects.count() >= least, timeout=120)
        if round_ == 5:
            elsewhere(_end_all_sessions)
            connection.close()
        victim = alive.pop(chance.randrange(2))
        victim.signal(signal.SIGKILL)
        victim.wait()
        alive.append(workers.start("--slots", "2", ready=False))
    wait_until(lambda: not _left(), timeout=240, message=_left)

    _assert_each_effect_once(jobs, 10)
    again = JobEvent.objects.filter(kind="step_skipped")
    assert again.exists()
    for job in jobs:
        told = JobEvent.objects.filter(job_id=job.pk).order_by("id")
        assert told.filter(kind="claim").count() == len(runs(job))
        assert told.last().kind == "finish"  # type: ignore[union-attr]


def _end_all_sessions() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_a_new_worker_goes_on_where_the_killed_one_was(workers: Workers) -> None:
    first = workers.start("--slots", "1")
    [job] = _ledgers(1, attempts=3, steps=5, hang_after=2)
    wait_until(lambda: Checkpoint.objects.filter(job_id=job.pk).count() == 3)
    first.signal(signal.SIGKILL)
    first.wait()
    wait_until(first.all_gone, message=first.below)
    last = JobEvent.objects.filter(job_id=job.pk).latest("id")

    workers.start("--slots", "1")

    assert wait_for(job).status == JobStatus.DONE
    _assert_each_effect_once([job], 5)
    after = JobEvent.objects.filter(job_id=job.pk, pk__gt=last.pk).order_by("id")
    resumed = [kind for kind in after.values_list("kind", flat=True) if kind != "note"]
    assert resumed == [
        "rescue",
        "claim",
        *["step_skipped"] * 3,
        *["step_started", "step_finished"] * 2,
        "finish",
    ]
    assert [run.outcome for run in runs(job)] == [RunOutcome.LOST, RunOutcome.SUCCEEDED]


def test_a_document_is_fetched_filled_and_answered_once_whenever_it_dies(
    workers: Workers, tmp_path: Path
) -> None:
    folder = tmp_path / "document"
    folder.mkdir()
    workers.start("--slots", "1")

    job = wait_for(enqueueing.enqueue(Document(folder=str(folder))))

    assert (job.status, job.attempt, job.crashes) == (JobStatus.DONE, 4, 3)
    assert (folder / "downloads").read_text() == "once\n"
    assert (folder / "fills").read_text() == "once\n"
    assert list(Effect.objects.values_list("label", "attempt")) == [("reply", 4)]
    assert job.result == {"reply": "Dear Anna,"}
    assert job.progress.artifacts == ["copy.txt"]
    assert job.progress.state == {"copy": "copy.txt"}
    by = Checkpoint.objects.filter(job_id=job.pk).values_list("step", "attempt")
    assert dict(by) == {
        "find the source": 1,
        "fill the copy": 2,
        "prepare the reply": 4,
    }


# -- outside effects ---------------------------------------------------------------------


def test_a_process_that_dies_while_it_tells_the_outside_world_tells_it_once(
    workers: Workers,
) -> None:
    workers.start("--slots", "1")
    with receiving() as outside:
        posted = enqueueing.enqueue(Posting(url=outside.address(), label="hello"))
        job = wait_for(posted)

        assert (job.status, job.error_code) == (JobStatus.FAILED, "outcome_unknown")
        action = JobAction.objects.get()
        assert action.status == ActionStatus.OUTCOME_UNKNOWN
        assert [each.body for each in outside.received] == [b"hello"]
        assert outside.ids() == [str(action.pk)]
        with pytest.raises(Refused) as refused:
            verbs.retry(job.pk, actor=ANNA)
        assert refused.value.code == "outcome_unknown"

        actions.settle(action.pk, happened=True, actor=ANNA, reason="it is there")
        verbs.retry(job.pk, actor=ANNA)
        again = wait_for(job)

        assert again.status == JobStatus.DONE
        assert again.result == {}  # nobody has the provider's receipt
        assert len(outside.received) == 1


# -- a lease that is gone ------------------------------------------------------------------

# Public names of Context that write nothing into the database.
READS = {
    "job",
    "lease_id",
    "session",
    "alarm",
    "blocks",
    "attempt",
    "state",
    "answers",
    "children",
    "log",  # the job's log: kept by the worker, as the output of a late run is
    "outside",
    "cancelled",  # tells of it instead
}


def _leave_effect() -> None:
    Effect.objects.create(label="late")


def _step(ctx: Context) -> None:
    with ctx.step("late"):
        _leave_effect()


WRITES: dict[str, Callable[[Context], object]] = {
    "step": _step,
    "once": lambda ctx: ctx.once("late", _leave_effect),
    "checkpoint": lambda ctx: ctx.checkpoint(state={"late": True}),
    "progress": lambda ctx: ctx.progress(9, 9, "late"),
    "note": lambda ctx: ctx.note("late"),
    "tell": lambda ctx: ctx.tell(EventKind.NOTE, "late"),
    "record": lambda ctx: ctx.record(EventKind.NOTE, "late"),
    "check_lease": lambda ctx: ctx.check_lease(),
    "heartbeat": lambda ctx: ctx.heartbeat(),
    "propose": lambda ctx: ctx.propose("late", {"late": True}),
    "perform": lambda ctx: ctx.perform(
        "early", lambda action: pytest.fail("the effect was brought about")
    ),
    "spawn": lambda ctx: ctx.spawn("late", Probe()),
}


def test_every_public_name_of_a_context_is_known_to_read_or_to_write() -> None:
    public = {name for name in dir(Context) if not name.startswith("_")}

    assert public == READS | set(WRITES)
    assert not READS & set(WRITES)


def _over(job: BuildJob) -> None:
    BuildJob.objects.filter(pk=job.pk).update(
        lease_until=timezone.now() - timedelta(seconds=5)
    )


LOSSES: dict[str, Callable[[BuildJob], object]] = {
    "taken over": taken_over,
    "cancelled": lambda job: verbs.cancel(job.pk, actor=ANNA),
    "paused": lambda job: verbs.pause(job.pk, actor=ANNA),
    "released": lambda job: verbs.release(job.pk, actor=ANNA, reason="slow"),
    "deleted": lambda job: connection.cursor().execute(
        "DELETE FROM buildqueue_buildjob WHERE id = %s", [job.pk]
    ),
}


def _rows() -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table of ours, and of the host's."""
    labels = ("buildqueue", "host")
    models = [m for m in apps.get_models() if m._meta.app_label in labels]
    return {
        model._meta.db_table: sorted(model._base_manager.values_list(), key=repr)
        for model in models
        if model._meta.managed
    }


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", WRITES)
def test_every_method_that_writes_is_refused_without_the_lease_and_writes_nothing(
    committed: None, name: str, loss: str
) -> None:
    with run_of() as ctx:
        ctx.propose("early", {"early": True}, review=False)
        ctx.checkpoint(state={"early": True})
        LOSSES[loss](ctx.job)
        before = _rows()
        ctx._looked = float("-inf")  # a second is over

        with pytest.raises(LostLeaseError):
            WRITES[name](ctx)

        assert _rows() == before
        assert ctx.cancelled


@pytest.mark.parametrize("name", sorted(set(WRITES) - {"note", "tell", "record"}))
def test_a_lease_that_is_over_is_gone_before_anybody_has_taken_the_job(
    committed: None, name: str
) -> None:
    with run_of() as ctx:
        ctx.propose("early", {"early": True}, review=False)
        _over(ctx.job)
        ctx._looked = float("-inf")  # a second is over

        with pytest.raises(LostLeaseError):
            WRITES[name](ctx)

        assert not Effect.objects.exists()
        assert not Checkpoint.objects.exists()
        assert JobAction.objects.get().status == ActionStatus.APPROVED
