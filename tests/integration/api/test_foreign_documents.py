"""Is a row shown whatever another writer, or raw SQL, has put into its documents?"""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser
from django.db import connection
from django.test import Client

from buildqueue.models import BuildJob, JobProgress
from tests.factories import make_job
from tests.support.decisions import make_action

pytestmark = pytest.mark.django_db
EVENT = """
INSERT INTO buildqueue_jobevent (job_id, attempt, kind, title, detail, actor)
VALUES (%s, 0, 'note', 'x', %s::jsonb, 'worker')
"""


def _write(table: str, column: str, key: Any, document: str) -> None:
    name = "job_id" if table == "jobprogress" else "id"
    sql = f"UPDATE buildqueue_{table} SET {column} = %s::jsonb WHERE {name} = %s"
    with connection.cursor() as cursor:
        cursor.execute(sql, [document, key])


def _deep(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


@pytest.fixture
def job(owner: AbstractUser) -> BuildJob:
    return make_job("done", owner_id=str(owner.pk))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("[1]", {"value": [1]}),
        ('"x"', {"value": "x"}),
        ("5", {"value": 5}),
        ("false", {"value": False}),
        ("{}", {}),
        ('{"a": [1]}', {"a": [1]}),
    ],
)
def test_a_result_of_any_type_is_shown(
    job: BuildJob, as_owner: Client, document: str, expected: dict[str, Any]
) -> None:
    _write("buildjob", "result", job.pk, document)

    assert as_owner.get(f"/api/jobs/{job.pk}").json()["result"] == expected


@pytest.mark.parametrize("depth", [150, 300, 600, 5000])
def test_what_is_too_deep_is_cut(job: BuildJob, as_owner: Client, depth: int) -> None:
    action = make_action(job)
    with connection.cursor() as cursor:
        cursor.execute(EVENT, [job.pk, _deep(depth)])
    _write("buildjob", "result", job.pk, _deep(depth))
    _write("jobaction", "receipt", action.pk, _deep(depth))

    for path in ("", "/events", "/actions"):
        response = as_owner.get(f"/api/jobs/{job.pk}{path}")
        assert response.status_code == 200, (path, response.content[:200])


@pytest.mark.parametrize(
    "document",
    [
        '{"for": "input"}',
        '{"for": "input", "question": null, "fields": {"a": null}, "order": ["b", [1]]}',
        '{"for": "input", "question": "q", "fields": {"a": {"choices": [[1], 2]}}}',
        '{"for": "input", "question": ["q"], "key": 5, "fields": [1]}',
        "[1]",
        "5",
    ],
)
def test_a_question_of_any_shape_is_shown(
    owner: AbstractUser, as_owner: Client, document: str
) -> None:
    job = make_job("waiting_input", owner_id=str(owner.pk))
    JobProgress.objects.update_or_create(job=job)
    _write("jobprogress", "waits_for", job.pk, document)

    assert as_owner.get(f"/api/jobs/{job.pk}").status_code == 200
