"""Do the statements that run all day find their rows by an index, in a table of many?

Asserted on plans and on counts of rows read, never on time.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from buildqueue.models import BuildJob, LogChunk
from buildqueue.queue import (
    claiming,
    leases,
    logs,
    recovery,
    stats,
    transitions,
    verbs,
)
from buildqueue.queue.claiming import Scope
from buildqueue.queue.outcomes import Actor
from buildqueue.queue.transitions import taking
from buildqueue.worker import heartbeat, listener
from tests.factories import make_job
from tests.support.plans import Plan, explain
from tests.support.turns import holder

from .test_endings import _finish

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

JOBS = "buildqueue_buildjob"
MANY = """
INSERT INTO buildqueue_buildjob
    (payload, queue, priority, status, due_at, lease_id, lease_until, picked_at,
     slot, worker, completed_at, attempt, created_at)
SELECT '{"kind": "probe"}', 'q' || n %% 5, n %% 3, status,
       now() + CASE status WHEN 'scheduled' THEN 1 ELSE -1 END * interval '1 hour',
       CASE status WHEN 'in_progress' THEN gen_random_uuid() END,
       CASE status WHEN 'in_progress' THEN now() + interval '1 hour' END,
       CASE WHEN status NOT IN ('pending', 'scheduled') THEN now() END,
       CASE status WHEN 'in_progress' THEN gen_random_uuid() END,
       CASE status WHEN 'in_progress' THEN gen_random_uuid() END,
       CASE WHEN status IN ('done', 'failed') THEN now() END,
       CASE WHEN status IN ('pending', 'scheduled') THEN 0 ELSE 1 END,
       now() - n * interval '1 second'
FROM (
    SELECT n, CASE WHEN n %% 10 < 5 THEN 'done' WHEN n %% 10 < 8 THEN 'pending'
                   WHEN n %% 10 = 8 THEN 'scheduled'
                   WHEN n %% 100 = 9 THEN 'in_progress' ELSE 'failed' END AS status
    FROM generate_series(1, %s) AS n
) AS made
"""
LINES = """
INSERT INTO buildqueue_logchunk (job_id, run_id, attempt, seq, stream, text)
SELECT picked.id, picked.run, 1, n, 'stdout', 'hello'
FROM (SELECT id, gen_random_uuid() AS run FROM buildqueue_buildjob
      ORDER BY seq LIMIT 200) AS picked, generate_series(1, 100) AS n
"""


@pytest.fixture(scope="module")
def filled(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Fill the table with jobs in every status, once, and let the planner know."""
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(MANY, [30_000])
        cursor.execute(LINES)
        cursor.execute("VACUUM ANALYZE buildqueue_buildjob, buildqueue_logchunk")
        connection.close()
    yield
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM buildqueue_buildjob")
        cursor.execute("DELETE FROM buildqueue_logchunk")
        connection.close()
    # Not for the tests that come after: the vacuum's view of an empty table.
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE buildqueue_buildjob, buildqueue_logchunk")
        connection.close()


@pytest.fixture
def many(filled: None, db: None) -> None:
    """Start from the filled table; what a test changes is rolled back."""


def _statements(captured: CaptureQueriesContext, *, of: str) -> Sequence[str]:
    return [q["sql"] for q in captured.captured_queries if of in q["sql"]]


def _plan(sql: str, params: Any = None, *, run: bool = False) -> Plan:
    return explain(sql, params or [], run=run)


def _queryset_plan(queryset: Any, *, run: bool = False) -> Plan:
    sql, params = queryset.query.get_compiler("default").as_sql()
    return explain(sql, params, run=run)


@pytest.mark.parametrize(
    "scope",
    [Scope(), Scope(capabilities=("gpu",)), Scope(kinds=("probe", "other"))],
    ids=["any", "capable", "kinds"],
)
def test_candidates_are_found_by_the_index_of_the_work_queue(
    many: None, scope: Scope
) -> None:
    plan = _queryset_plan(claiming.candidates("q1", scope, 10), run=True)

    assert "build_jobs_work_queue" in plan.indexes(), plan
    assert JOBS not in plan.scanned(), plan
    assert plan.sorts() == 0, plan
    assert plan.rows_read() <= 60, plan


def test_the_whole_claim_scans_no_jobs(many: None) -> None:
    statement, params = taking.claim_sql(
        claiming.candidates("q1", Scope(), 10), holder()
    )

    plan = explain(statement, params, run=False)

    assert JOBS not in plan.scanned(), plan
    assert "build_jobs_work_queue" in plan.indexes(), plan


def test_candidates_with_serial_keys_are_found_by_their_index(many: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE buildqueue_buildjob SET serial_key = 'k' || seq % 500 "
            "WHERE status = 'pending'"
        )
        cursor.execute("ANALYZE buildqueue_buildjob")

    plan = _queryset_plan(claiming.candidates("q1", Scope(), 10))

    assert {"build_jobs_work_queue", "build_jobs_serial"} <= plan.indexes(), plan
    assert JOBS not in plan.scanned(), plan


def test_the_heads_of_queues_are_found_without_walking_them(many: None) -> None:
    plan = _plan(claiming.HEADS, run=True)

    assert plan.indexes() == {"build_jobs_work_queue"}, plan
    assert JOBS not in plan.scanned(), plan
    assert plan.rows_read() < 50, plan


def test_the_oldest_waiting_job_is_found_without_walking_the_queue(many: None) -> None:
    plan = _plan(stats.OLDEST_WAITING, run=True)

    assert plan.indexes() == {"build_jobs_work_queue"}, plan
    assert plan.rows_read() < 150, plan
    oldest = BuildJob.objects.filter(status="pending").order_by("due_at", "seq").first()
    assert stats.snapshot().oldest_waiting == oldest


def test_the_numbers_of_the_snapshot_scan_no_jobs(many: None) -> None:
    with CaptureQueriesContext(connection) as captured:
        snapshot = stats.snapshot()

    assert snapshot.counts["scheduled"] == 3000
    assert snapshot.counts["in_progress"] == 300
    assert snapshot.counts["pending"] == 9000
    statements = _statements(captured, of="COUNT")
    assert len(statements) == len(snapshot.counts) + 1
    for statement in statements:
        if "'done'" in statement or "'pending' AND NOT" in statement:
            continue  # up to COUNT_CAP of half the table: here a scan is the best way
        assert JOBS not in _plan(statement).scanned(), statement


def test_a_completion_finds_its_row_by_a_unique_key(many: None) -> None:
    job = make_job("in_progress")

    with CaptureQueriesContext(connection) as captured:
        _finish(job)

    statements = _statements(captured, of=JOBS)
    assert any(statement.startswith("UPDATE") for statement in statements)
    for statement in statements:
        plan = _plan(statement)
        # By id or by the unique lease, never along the running jobs; a look whether it
        # has actions comes with it.
        own = plan.indexes() - {"job_actions_one_per_key"}
        assert len(own) == 1, plan
        assert own <= {"buildqueue_buildjob_pkey", "build_jobs_one_lease"}
        assert JOBS not in plan.scanned(), plan


def test_a_verb_finds_its_row_by_the_primary_key(many: None) -> None:
    job = make_job()

    with CaptureQueriesContext(connection) as captured:
        verbs.cancel(job.pk, actor=Actor(label="anna"))

    for statement in _statements(captured, of=JOBS):
        assert JOBS not in _plan(statement).scanned(), statement


def test_leases_that_are_over_are_found_by_their_index(many: None) -> None:
    with CaptureQueriesContext(connection) as captured:
        leases.over()

    [statement] = _statements(captured, of=JOBS)
    plan = _plan(statement, run=True)
    assert plan.indexes() == {"build_jobs_leases"}, plan
    assert plan.rows_read() == 0, plan


def test_renewal_finds_its_rows_by_an_index(many: None) -> None:
    plan = _plan(leases.RENEW, [60.0, [uuid.uuid4(), uuid.uuid4()]])

    assert JOBS not in plan.scanned(), plan
    assert plan.indexes() == {"build_jobs_one_lease", "buildqueue_buildjob_pkey"}, plan


def test_lost_leases_are_found_by_their_index(many: None) -> None:
    plan = _plan(heartbeat.LOST, [[uuid.uuid4(), uuid.uuid4()]])

    assert JOBS not in plan.scanned(), plan


def test_whether_anything_is_due_is_found_by_the_index(many: None) -> None:
    with CaptureQueriesContext(connection) as captured:
        assert not claiming.anything_due()

    [statement] = _statements(captured, of=JOBS)
    plan = _plan(statement, run=True)
    assert plan.indexes() == {"build_jobs_scheduled"}, plan
    assert plan.rows_read() == 0, plan


def test_due_jobs_are_found_by_their_index(many: None) -> None:
    with CaptureQueriesContext(connection) as captured:
        transitions.promote_due()

    [statement] = _statements(captured, of=JOBS)
    plan = _plan(statement, run=True)
    assert plan.indexes() == {"build_jobs_scheduled"}, plan
    assert plan.rows_read() == 0, plan


def test_hooks_to_retry_are_found_by_their_index(many: None) -> None:
    with CaptureQueriesContext(connection) as captured:
        recovery.retry_hooks()

    [statement] = _statements(captured, of=JOBS)
    assert _plan(statement).indexes() == {"build_jobs_hooks"}


@pytest.mark.parametrize("every", [True, False])
@pytest.mark.parametrize("waiting", [True, False], ids=["busy", "idle"])
def test_the_look_of_an_idle_worker_reads_a_few_rows(
    many: None, every: bool, waiting: bool
) -> None:
    if not waiting:
        BuildJob.objects.filter(status="pending").update(held=True)
    values = {
        "busy": 0,
        "status": "running",
        "direct": True,
        "worker": uuid.uuid4(),
        "all": every,
        "queues": [] if every else ["q2", "q3"],
        "watch": True,
    }

    plan = _plan(listener.LOOK, values)

    assert JOBS not in plan.scanned(), plan
    assert {"build_jobs_work_queue", "build_jobs_scheduled"} <= plan.indexes(), plan


def test_a_log_is_read_by_its_index(many: None) -> None:
    chunk = LogChunk.objects.order_by("?").first()
    assert chunk is not None

    with CaptureQueriesContext(connection) as captured:
        after = logs.read(chunk.job_id, logs.Position(1, 40), limit=20)
        last = logs.tail(chunk.job_id, limit=20)

    assert [c.seq for c in after] == list(range(41, 61))
    assert [c.seq for c in last] == list(range(81, 101))
    for statement in _statements(captured, of="buildqueue_logchunk"):
        plan = _plan(statement, run=True)
        assert plan.indexes() == {"log_chunks_read"}, plan
        assert plan.rows_read() <= 100, plan


def test_a_claim_costs_a_bounded_number_of_statements(many: None) -> None:
    with CaptureQueriesContext(connection) as captured:
        claiming.claim(Scope(queues=("q1",)), holder())

    # is anything due; heads; savepoint, claim, release
    assert len(captured) <= 5


def test_the_deadline_of_a_claim_is_the_leases(many: None) -> None:
    [job] = claiming.claim(Scope(queues=("q1",)), holder(lease=30))

    assert job.lease_until is not None
    assert job.picked_at is not None
    assert job.lease_until - job.picked_at < timedelta(seconds=31)
