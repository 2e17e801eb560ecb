"""Does what is old leave, all of it, and nothing that somebody still needs?"""

from __future__ import annotations

import uuid
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from buildqueue.models import (
    BuildJob,
    Checkpoint,
    JobAction,
    JobEvent,
    JobProgress,
    JobRun,
    LogChunk,
    Notice,
    Worker,
)
from buildqueue.queue import retention
from buildqueue.queue.retention import Pruned, prune
from tests.factories import make_job, make_run
from tests.support.races import race
from tests.support.scratch import url_of

JOBS = "buildqueue_buildjob"
OWNED = (JobRun, JobEvent, Checkpoint, JobProgress, JobAction, LogChunk)
MANY = """
WITH made AS (
    INSERT INTO buildqueue_buildjob
        (payload, status, attempt, picked_at, completed_at, created_at)
    SELECT '{"kind": "probe"}', CASE WHEN n %% 5 = 0 THEN 'failed' ELSE 'done' END, 1,
           moment, moment, moment
    FROM (SELECT n, now() - %(age)s - n * interval '1 second' AS moment
          FROM generate_series(1, %(jobs)s) AS n) AS numbered
    RETURNING id, gen_random_uuid() AS run
), runs AS (
    INSERT INTO buildqueue_jobrun
        (id, job_id, attempt, worker, slot, ended_at, outcome)
    SELECT run, id, 1, run, run, now(), 'succeeded' FROM made
), events AS (
    INSERT INTO buildqueue_jobevent (job_id, kind) SELECT id, 'claim' FROM made
), steps AS (
    INSERT INTO buildqueue_checkpoint (job_id, step, attempt)
    SELECT id, 'build', 1 FROM made
)
INSERT INTO buildqueue_logchunk (job_id, run_id, attempt, seq, stream, text)
SELECT id, run, 1, 1, 'stdout', repeat('line ', 50) FROM made
"""


def days_ago(days: float) -> datetime:
    return timezone.now() - timedelta(days=days)


def old(status: str = "done", days: float = 20, **values: Any) -> BuildJob:
    moment = days_ago(days)
    values = {"completed_at": moment} | values
    job = make_job(status, **values)
    BuildJob.objects.filter(pk=job.pk).update(created_at=moment)
    return job


def keeping(
    done: float | None = 14, failed: float | None = 90
) -> AbstractContextManager[Any]:
    ages = {"RETENTION_DONE_DAYS": done, "RETENTION_FAILED_DAYS": failed}
    return override_settings(BUILDQUEUE=ages)


def left() -> set[uuid.UUID]:
    return set(BuildJob.objects.values_list("pk", flat=True))


def make_many(jobs: int, days: float = 100) -> None:
    with connection.cursor() as cursor:
        cursor.execute(MANY, {"jobs": jobs, "age": timedelta(days=days)})


def test_jobs_leave_when_their_time_is_over_and_failed_ones_later(db: None) -> None:
    young = [old("done", 13), old("failed", 89), old("cancelled", 89), make_job()]
    for status, days in (("done", 15), ("failed", 91), ("cancelled", 91)):
        old(status, days)

    with keeping():
        assert prune().jobs == 3
        assert prune() == Pruned()

    assert left() == {job.pk for job in young}


@pytest.mark.parametrize(
    ("done", "failed", "expected"),
    [(None, 90, {"done"}), (14, None, {"failed"}), (None, None, {"done", "failed"})],
)
def test_none_keeps_for_ever(
    db: None, done: float | None, failed: float | None, expected: set[str]
) -> None:
    old("done", 10_000)
    old("failed", 10_000)

    with keeping(done, failed):
        prune()

    assert set(BuildJob.objects.values_list("status", flat=True)) == expected


def test_all_that_belongs_to_a_job_leaves_with_it(committed: None) -> None:
    make_many(20, days=100)
    job = BuildJob.objects.earliest("created_at")
    JobProgress.objects.create(job=job)
    make_action(job, "succeeded")
    kept = make_job("done")
    make_run(kept, outcome="succeeded", ended_at=timezone.now())
    assert all(model.objects.exists() for model in OWNED)  # type: ignore[attr-defined]

    with keeping():
        assert prune().jobs == 20

    for model in OWNED:
        rows = model.objects.exclude(job_id=kept.pk)  # type: ignore[attr-defined]
        assert not rows.exists(), model
    assert JobRun.objects.filter(job=kept).count() == 1


def make_action(job: BuildJob, status: str) -> JobAction:
    fields = {"title": "Mail", "content": {}, "content_hash": "x", "attempt": 1}
    return JobAction.objects.create(job=job, key="mail", status=status, **fields)


def test_what_somebody_still_needs_never_leaves(db: None) -> None:
    long_ago = days_ago(1000)
    open_job = make_job()
    BuildJob.objects.filter(pk=open_job.pk).update(created_at=long_ago)
    waiting_parent, parent_of_open = make_job("waiting_children"), old("failed", 1000)
    unknown, running_on = old("failed", 1000), old("cancelled", 1000)
    parent_to_retry = old("failed", 50)
    make_action(unknown, "outcome_unknown")
    make_run(running_on)
    kept = [
        open_job,
        waiting_parent,
        old("done", 1000, parent=waiting_parent),
        parent_of_open,
        make_job(parent=parent_of_open),
        unknown,
        running_on,
        old("failed", 1000, hook_pending=True),
        parent_to_retry,
        old("done", 1000, parent=parent_to_retry),  # its result is wanted then
        old("done", 1000, completed_at=days_ago(1)),  # waited for long, ended lately
    ]
    ended_family = old("done", 1000)
    old("done", 1000, parent=ended_family)

    with keeping():
        assert prune().jobs == 2

    assert left() == {job.pk for job in kept}


def test_a_job_that_somebody_works_on_is_left_to_the_next_tick(
    committed: None,
) -> None:
    locked, _free = old(), old()

    with psycopg.connect(url_of(connection.settings_dict["NAME"])) as other, keeping():
        other.execute(f"SELECT 1 FROM {JOBS} WHERE id = %s FOR UPDATE", [locked.pk])
        assert prune().jobs == 1
        assert left() == {locked.pk}
        other.rollback()
        assert prune().jobs == 1


def test_retention_gives_way_to_who_holds_a_child_of_an_old_job(
    committed: None,
) -> None:
    """Its own wait is short: it is never the verb that a deadlock ends."""
    parent = old()
    child = old("failed", 20, parent=parent)
    lock = f"SELECT 1 FROM {JOBS} WHERE id = %s FOR UPDATE"

    with psycopg.connect(url_of(connection.settings_dict["NAME"])) as other, keeping():
        other.execute(lock, [child.pk])
        assert prune().jobs == 0
        assert left() == {parent.pk, child.pk}
        other.rollback()
        assert prune().jobs == 1
    child.refresh_from_db()
    assert child.parent_id is None


def test_chunks_are_transactions_of_their_own_and_a_call_is_bounded(
    committed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "CHUNK", 10)
    make_many(100)

    with keeping(), CaptureQueriesContext(connection) as captured:
        assert prune(limit=35).jobs == 35

    deletes = [q for q in captured.captured_queries if "old AS MATER" in q["sql"]]
    assert len(deletes) == 4
    assert BuildJob.objects.count() == 65
    with keeping():
        assert prune().jobs == 65


def test_two_that_prune_at_once_share_the_work(
    committed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "CHUNK", 20)
    make_many(400)

    with keeping():
        pruned = race(2, lambda _: prune().jobs)
        assert sum(pruned) + prune().jobs == 400

    assert left() == set()


def test_notices_that_were_sent_or_given_up_leave_and_waiting_ones_stay(
    db: None,
) -> None:
    ages = {"sent": (13, 15), "failed": (89, 91), "pending": (1000, 1001)}
    for status, days in ages.items():
        for age in days:
            sent_at = days_ago(age) if status == "sent" else None
            Notice.objects.create(
                key=f"{status} {age}",
                destination="ops",
                event="job.done",
                body={},
                status=status,
                sent_at=sent_at,
                created_at=days_ago(age),
            )

    with keeping():
        assert prune().notices == 2

    assert set(Notice.objects.values_list("key", flat=True)) == {
        "sent 13",
        "failed 89",
        "pending 1000",
        "pending 1001",
    }


def test_workers_that_are_gone_leave_and_others_stay(db: None) -> None:
    for status in ("running", "draining", "stopped", "lost"):
        for days in (13, 15):
            Worker.objects.create(
                host=f"{status} {days}",
                pid=1,
                slots=1,
                version="1",
                status=status,
                heartbeat_at=days_ago(days),
            )

    with keeping():
        assert prune().workers == 2

    gone = {"stopped 15", "lost 15"}
    hosts = set(Worker.objects.values_list("host", flat=True))
    assert len(hosts) == 6
    assert not hosts & gone


def test_logs_whose_jobs_were_deleted_by_hand_leave(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_many(30, days=1)
    gone = BuildJob.objects.values_list("pk", flat=True)[:10]
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {JOBS} WHERE id = ANY(%s)", [list(gone)])
    assert LogChunk.objects.count() == 30

    with keeping():
        assert prune().orphaned_lines == 10

    owners = set(LogChunk.objects.values_list("job_id", flat=True))
    assert owners == left()


def test_a_look_for_orphaned_logs_is_bounded_and_comes_round(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "LOGS_LOOKED_AT", 10)
    make_many(60, days=1)
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {JOBS}")

    with keeping():
        cleared = [prune().orphaned_lines for _ in range(6)]

    assert cleared == [10] * 6


def test_nothing_to_clear_away_costs_few_statements(db: None) -> None:
    make_many(50, days=1)

    with keeping(), CaptureQueriesContext(connection) as captured:
        assert prune() == Pruned()

    assert len(captured) <= 3


@pytest.mark.slow
def test_tables_stay_bounded_however_many_jobs_come_and_go(committed: None) -> None:
    """Row X13, in small: rounds of jobs that end, grow old and are cleared away."""
    tables = ("buildjob", "jobrun", "jobevent", "checkpoint", "logchunk")
    rounds: list[dict[str, int]] = []

    for _ in range(6):
        make_many(1500)
        make_many(100, days=1)
        with keeping():
            assert prune().jobs == 1500
        with connection.cursor() as cursor:
            for table in tables:
                cursor.execute(f"VACUUM buildqueue_{table}")
            cursor.execute(SIZES, [[f"buildqueue_{table}" for table in tables]])
            rounds.append(dict(cursor.fetchall()))

    for table, size in rounds[-1].items():
        # 100 jobs a round stay; 1 500 come and go in the space of those before.
        assert size <= 1.6 * rounds[0][table], rounds
    assert BuildJob.objects.count() == 600
    assert LogChunk.objects.count() == JobEvent.objects.count() == 600


SIZES = "SELECT name, pg_table_size(name::regclass) FROM unnest(%s::text[]) AS name"
