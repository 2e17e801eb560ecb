"""Do the looks at children, actions and waits find their rows by an index?

A table of many jobs, a tenth of them children; asserted on plans, never on time.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from buildqueue.models import BuildJob
from buildqueue.queue import actions, recovery
from buildqueue.queue.transitions import actionflow, families, waits
from buildqueue.states import JobStatus
from tests.factories import make_job
from tests.support.plans import explain

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

JOBS, ACTIONS = "buildqueue_buildjob", "buildqueue_jobaction"
PARENTS = """
INSERT INTO buildqueue_buildjob (payload, status, completed_at, attempt, created_at)
SELECT '{"kind": "probe"}', CASE WHEN n %% 5 = 0 THEN 'failed' ELSE 'done' END, now(), 1,
       now() - n * interval '1 second'
FROM generate_series(1, %s) AS n
"""
CHILDREN = """
INSERT INTO buildqueue_buildjob (payload, status, completed_at, attempt, parent_id)
SELECT '{"kind": "probe"}', 'done', now(), 1, id
FROM buildqueue_buildjob WHERE seq % 10 = 0
"""
MADE = """
INSERT INTO buildqueue_jobaction
    (id, job_id, key, title, content, content_hash, status, attempt, expires_at)
SELECT gen_random_uuid(), id, 'mail', 'Mail', '{}', '', 'succeeded', 1, now()
FROM buildqueue_buildjob
"""


@pytest.fixture(scope="module")
def filled(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Fill the tables, once, and let the planner know."""
    tables = f"{JOBS}, {ACTIONS}"
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(PARENTS, [20_000])
        cursor.execute(CHILDREN)
        cursor.execute(MADE)
        cursor.execute(f"VACUUM ANALYZE {tables}")
        connection.close()
    yield
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {JOBS}")  # the actions go along
        connection.close()
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(f"VACUUM ANALYZE {tables}")
        connection.close()


@pytest.fixture
def many(filled: None, db: None) -> None:
    """Start from the filled tables; what a test changes is rolled back."""


def _no_scan(act: Any) -> None:
    with CaptureQueriesContext(connection) as captured:
        act()
    looked = [q["sql"] for q in captured.captured_queries if q["sql"][:6] == "SELECT"]
    assert looked
    for statement in looked:
        plan = explain(statement, [], run=False)
        assert not {JOBS, ACTIONS} & plan.scanned(), (statement, plan)


def test_the_children_of_one_job_are_found(many: None) -> None:
    parent = make_job(JobStatus.WAITING_CHILDREN)
    make_job(parent=parent)

    _no_scan(lambda: waits.verdict(parent))
    _no_scan(lambda: families.cancel_children_after_commit(parent))
    _no_scan(lambda: families.not_done_below(parent.pk))


def test_open_children_of_ended_parents_are_found(many: None) -> None:
    make_job(parent=BuildJob.objects.filter(status="failed").first())

    _no_scan(lambda: families.open_children_of_ended(100))


def test_waits_that_are_over_are_found(many: None) -> None:
    make_job(JobStatus.WAITING_CHILDREN)
    make_job(JobStatus.WAITING_APPROVAL)

    _no_scan(lambda: waits.over(100))


def test_actions_that_need_something_are_found(many: None) -> None:
    job = make_job(JobStatus.IN_PROGRESS)

    _no_scan(lambda: actions.expire_old())
    _no_scan(lambda: actions.sweep())
    _no_scan(lambda: actionflow.unsettled(job))
    _no_scan(lambda: actionflow.cancel_undecided(job))
    _no_scan(lambda: actions.find(uuid.uuid4(), "mail"))


def test_the_repair_of_pairs_scans_nothing(many: None) -> None:
    _no_scan(lambda: recovery.repair_pairs())
