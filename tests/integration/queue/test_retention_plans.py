"""Are old rows, what hangs on them, and due notices found by an index among many?"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from buildqueue.models import BuildJob
from buildqueue.queue import retention
from buildqueue.queue.outbox import sending
from tests.support.plans import explain

from .test_retention import JOBS, make_many

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


@pytest.fixture(scope="module")
def filled(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Fill the tables with jobs, a tenth of them old, and let the planner know."""
    tables = (
        "buildqueue_buildjob, buildqueue_jobrun, buildqueue_jobevent, "
        "buildqueue_checkpoint, buildqueue_logchunk, buildqueue_notice"
    )
    notices = (
        "INSERT INTO buildqueue_notice (id, key, destination, event, body, status, "
        "sent_at, created_at) SELECT gen_random_uuid(), 'k' || n, 'ops', 'job.done', "
        "'{}', 'sent', now(), now() - n * interval '1 minute' "
        "FROM generate_series(1, 20000) AS n"
    )
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        make_many(18_000, days=0)
        make_many(2_000, days=100)
        cursor.execute(notices)
        cursor.execute(f"VACUUM ANALYZE {tables}")
        connection.close()
    yield
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM buildqueue_buildjob")
        cursor.execute("DELETE FROM buildqueue_logchunk")
        cursor.execute("DELETE FROM buildqueue_notice")
        cursor.execute(f"VACUUM ANALYZE {tables}")
        connection.close()


def test_old_jobs_are_found_from_the_old_end_of_an_index(
    filled: None, db: None
) -> None:
    """Of the ended ones, or of all when most of the old ones have the status anyway."""
    values = {"age": timedelta(days=14), "most": 500}

    for status in ("done", "failed"):
        sql = retention.PRUNE_JOBS.format(status=status)
        plan = explain(sql, values, run=True)
        assert {"build_jobs_ended", "build_jobs_newest"} & plan.indexes(), plan
        assert JOBS not in plan.scanned(), plan
        assert "buildqueue_logchunk" not in plan.scanned(), plan
        assert plan.rows_read() < 5_000, plan


def test_nothing_is_scanned_to_see_that_nothing_is_old(filled: None, db: None) -> None:
    old_enough = timedelta(days=1000)

    ages = {"done": old_enough, "failed": old_enough}
    asked = explain(retention.ANYTHING_OLD, ages, run=True)
    walk = {"start": uuid.uuid4(), "most": 50}
    orphans = explain(retention.ORPHANED_LOGS, walk, run=True)

    for plan in (asked, orphans):
        tables = {JOBS, "buildqueue_notice", "buildqueue_logchunk"}
        assert not tables & plan.scanned(), plan
        assert plan.rows_read() < 200, plan
    assert {"build_jobs_ended", "notices_old"} <= asked.indexes(), asked
    assert "log_chunks_read" in orphans.indexes(), orphans


def test_old_notices_are_found_by_their_index(filled: None, db: None) -> None:
    values = {"status": "sent", "age": timedelta(days=13), "most": 1000}

    plan = explain(retention.PRUNE_NOTICES, values, run=True)

    assert "notices_old" in plan.indexes(), plan
    assert "buildqueue_notice" not in plan.scanned(), plan


@pytest.mark.parametrize(
    "table",
    [
        "buildqueue_jobrun",
        "buildqueue_jobevent",
        "buildqueue_checkpoint",
        "buildqueue_logchunk",
    ],
)
def test_what_hangs_on_a_job_is_found_by_an_index(
    filled: None, db: None, table: str
) -> None:
    """The cascades ask this for each job; no table may be walked for it."""
    job = BuildJob.objects.earliest("seq")

    sql = f"DELETE FROM {table} WHERE job_id = %s"
    plan = explain(sql, [job.pk], run=False)

    assert table not in plan.scanned(), plan


def test_due_notices_are_found_by_their_index(filled: None, db: None) -> None:
    take = explain(sending.TAKE, [sending.HOLD], run=True)
    when = explain(sending.NEXT, [], run=True)

    for plan in (take, when):
        assert "notices_due" in plan.indexes(), plan
        assert "buildqueue_notice" not in plan.scanned(), plan
        assert plan.rows_read() < 10, plan
