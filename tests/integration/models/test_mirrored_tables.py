"""Is a row that nasiko's own SQL would write a good row here? And does the database
itself keep the house in order: defaults, cascades, stamps, events that stay?"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from buildqueue.models import BuildJob, JobEvent
from buildqueue.queue import claiming
from buildqueue.queue.transitions import Holder
from buildqueue.states import JobStatus
from tests.factories import (
    make_agent,
    make_build,
    make_connector,
    make_job,
)

from .rows import LEGAL, insert, make_references

pytestmark = pytest.mark.django_db

NASIKO_JOB_COLUMNS = {
    "id": "uuid",
    "agent_id": "uuid",
    "connector_id": "uuid",
    "owner_id": "character varying",
    "payload": "jsonb",
    "status": "character varying",
    "attempt": "integer",
    "error_msg": "text",
    "created_at": "timestamp with time zone",
    "picked_at": "timestamp with time zone",
    "completed_at": "timestamp with time zone",
}


def _holder() -> Holder:
    return Holder(
        worker=uuid.uuid4(), slot=uuid.uuid4(), pid=1, lease=timedelta(minutes=1)
    )


def _execute(sql: str, *params: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)


def _delete_as_committed(table: str, row_id: object) -> None:
    _execute(f"DELETE FROM buildqueue_{table} WHERE id = %s", row_id)
    _execute("SET CONSTRAINTS ALL IMMEDIATE")


def _count(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM buildqueue_{table}")
        return int(cursor.fetchone()[0])


def test_the_job_table_has_nasikos_columns_with_their_types() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name, data_type FROM information_schema.columns "
            "WHERE table_name = 'buildqueue_buildjob'"
        )
        columns = dict(cursor.fetchall())

    assert {name: columns.get(name) for name in NASIKO_JOB_COLUMNS} == (
        NASIKO_JOB_COLUMNS
    )


@pytest.mark.parametrize("kind", ["upload", "Upload"])
def test_a_job_of_nasikos_own_columns_is_pending_and_can_be_claimed(kind: str) -> None:
    agent = make_agent()
    job_id = insert(
        "buildjob",
        {
            "agent_id": str(agent.pk),
            "owner_id": str(uuid.uuid4()),
            "payload": {"kind": kind, "build_id": str(uuid.uuid4())},
        },
    )

    stored = BuildJob.objects.get(pk=job_id)
    assert (stored.status, stored.attempt, stored.kind) == ("pending", 0, kind)
    assert stored.lease_id is None
    assert stored.lease_until is None
    assert stored.picked_at is None

    [claimed] = claiming.claim(claiming.Scope(), _holder())
    assert str(claimed.pk) == job_id
    assert claimed.attempt == 1


def test_the_payloads_kind_is_a_column_and_missing_it_is_no_crash() -> None:
    first = insert("buildjob", {"owner_id": "1", "payload": {"kind": "probe"}})
    second = insert("buildjob", {"owner_id": "1", "payload": {}})

    assert BuildJob.objects.get(pk=first).kind == "probe"
    assert BuildJob.objects.get(pk=second).kind == ""


def _fill_agent() -> tuple[str, str]:
    agent = make_agent()
    build = make_build(agent)
    job = make_job(JobStatus.IN_PROGRESS, agent=agent)
    JobEvent.objects.create(job=job, kind="note")
    version = insert(
        "agentversion",
        {"agent_id": str(agent.pk), "version": "1.0.0", "build_id": str(build.pk)},
    )
    build.job_id, build.version_id = job.pk, uuid.UUID(version)
    build.save()
    insert(
        "agentdeployment",
        {"agent_id": str(agent.pk), "build_id": str(build.pk), "status": "running"},
    )
    return "agent", str(agent.pk)


def _fill_connector() -> tuple[str, str]:
    connector = make_connector()
    job = make_job(JobStatus.IN_PROGRESS, connector=connector)
    JobEvent.objects.create(job=job, kind="note")
    insert(
        "mcpconnectorbuild",
        {
            "connector_id": str(connector.pk),
            "owner_id": "1",
            "version_tag": "1.0.0",
            "job_id": str(job.pk),
        },
    )
    return "mcpconnector", str(connector.pk)


@pytest.mark.parametrize("fill", [_fill_agent, _fill_connector])
def test_a_raw_delete_of_a_target_takes_all_that_hangs_on_it(
    fill: Callable[[], tuple[str, str]],
) -> None:
    table, target = fill()
    other = make_job()

    _delete_as_committed(table, target)

    assert list(BuildJob.objects.values_list("pk", flat=True)) == [other.pk]
    for gone in (
        "jobrun",
        "jobevent",
        "agentbuild",
        "agentversion",
        "agentdeployment",
        "mcpconnectorbuild",
    ):
        assert _count(gone) == 0, gone


def test_a_build_outlives_its_job() -> None:
    agent = make_agent()
    job = make_job(agent=agent)
    build = make_build(agent, job=job)

    _delete_as_committed("buildjob", job.pk)

    build.refresh_from_db()
    assert build.job_id is None


def test_a_build_that_is_deployed_cannot_be_deleted_alone() -> None:
    agent = make_agent()
    build = make_build(agent)
    insert("agentdeployment", {"agent_id": str(agent.pk), "build_id": str(build.pk)})

    with pytest.raises(IntegrityError), transaction.atomic():
        _delete_as_committed("agentbuild", build.pk)


def _event() -> JobEvent:
    return JobEvent.objects.create(job=make_job(), kind="note", title="kept")


@pytest.mark.parametrize("retention", ["", "on"])
def test_an_event_is_never_changed(retention: str) -> None:
    event = _event()
    _execute("SELECT set_config('buildqueue.retention', %s, true)", retention)

    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        JobEvent.objects.filter(pk=event.pk).update(title="changed")

    event.refresh_from_db()
    assert event.title == "kept"


def test_an_event_is_not_deleted_by_a_statement_of_its_own() -> None:
    event = _event()

    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        JobEvent.objects.filter(pk=event.pk).delete()

    assert JobEvent.objects.filter(pk=event.pk).exists()


def test_retention_may_delete_events_by_its_setting() -> None:
    event = _event()
    _execute("SET LOCAL buildqueue.retention = 'on'")

    JobEvent.objects.filter(pk=event.pk).delete()

    assert not JobEvent.objects.filter(pk=event.pk).exists()


def test_a_jobs_events_go_with_the_job() -> None:
    event = _event()

    _execute("DELETE FROM buildqueue_buildjob WHERE id = %s", event.job_id)

    assert not JobEvent.objects.filter(pk=event.pk).exists()


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("agent", "description"),
        ("agentbuild", "logs"),
        ("agentdeployment", "last_logs"),
        ("mcpconnector", "description"),
        ("mcpconnectorbuild", "error_msg"),
    ],
)
def test_an_update_stamps_the_row(table: str, column: str) -> None:
    references = make_references()
    old = "2020-01-01T00:00:00Z"
    row: dict[str, Any] = LEGAL[table] | {"updated_at": old}
    row_id = insert(table, row, references)

    _execute(f"UPDATE buildqueue_{table} SET {column} = 'x' WHERE id = %s", row_id)

    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT updated_at = now() FROM buildqueue_{table} WHERE id = %s", [row_id]
        )
        assert cursor.fetchone()[0] is True


def test_keys_and_queues_are_compared_byte_by_byte() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name FROM information_schema.columns WHERE "
            "table_name = 'buildqueue_buildjob' AND collation_name = 'C'"
        )
        compared = {row[0] for row in cursor.fetchall()}

    assert {"queue", "serial_key", "dedupe_key", "owner_id", "kind"} <= compared
