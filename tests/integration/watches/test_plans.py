"""Do the duties find their rows by an index, in a table of many watches?"""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from buildqueue.builds import proposals, watchchecks
from buildqueue.models import Agent
from tests.factories import make_agent
from tests.support.plans import explain

pytestmark = pytest.mark.django_db

WATCHES = """
INSERT INTO buildqueue_sourcewatch (agent_id, git_url, ref, status, due_at)
SELECT %s, 'https://example.org/a.git', 'b' || n,
       CASE WHEN n %% 3 = 0 THEN 'paused' ELSE 'active' END,
       now() + CASE WHEN n %% 100 = 1 THEN -1 ELSE 1 END * n * interval '1 second'
FROM generate_series(1, 20000) AS n
"""
PROPOSALS = """
INSERT INTO buildqueue_proposal
    (id, watch_id, agent_id, commit_hash, status, decided_at)
SELECT gen_random_uuid(), id, agent_id, md5(ref), 'dismissed', now()
FROM buildqueue_sourcewatch
"""
BUILDS = """
INSERT INTO buildqueue_agentbuild (agent_id, version_tag, commit_hash)
SELECT %s, '1.0.' || n, md5(n::text) FROM generate_series(1, 5000) AS n
"""


@pytest.fixture
def agent(db: None) -> Agent:
    """Have very many watches of one agent, and a build or two of others."""
    made, other = make_agent(), make_agent()
    with connection.cursor() as cursor:
        cursor.execute(WATCHES, [made.pk])
        cursor.execute(PROPOSALS)
        cursor.execute(BUILDS, [other.pk])
        for table in ("sourcewatch", "proposal", "agentbuild"):
            cursor.execute(f"ANALYZE buildqueue_{table}")
    return made


def test_watches_that_are_due_are_found_by_their_index(agent: Agent) -> None:
    plan = explain(*watchchecks.due(100).query.sql_with_params(), run=True)

    assert "source_watches_due" in plan.indexes(), plan
    assert "buildqueue_sourcewatch" not in plan.scanned(), plan
    assert plan.sorts() == 0, plan
    assert plan.rows_read() <= 300, plan


def test_a_duty_without_work_costs_one_statement_and_reads_no_row() -> None:
    with CaptureQueriesContext(
        connection,
    ) as asked:
        assert watchchecks.enqueue_due() == 0
        assert proposals.repair_accepted() == 0

    selects = [each["sql"] for each in asked if each["sql"].startswith("SELECT")]
    assert len(selects) == 2


def test_the_builds_of_other_agents_are_not_read_for_a_proposal(agent: Agent) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE buildqueue_proposal SET status = 'accepted' WHERE id IN "
            "(SELECT id FROM buildqueue_proposal LIMIT 20)"
        )

    plan = explain(*proposals._undone().query.sql_with_params(), run=True)

    assert "buildqueue_agentbuild" not in plan.scanned(), plan
