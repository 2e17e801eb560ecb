"""How is the history read? From the tables, in one transaction that sees one moment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from . import payloads
from .history import Action, Event, Job, Run, Write

JOBS = """
SELECT id, kind, status, payload, parent_id, attempt, failures, crashes, max_attempts,
       due_at, completed_at, error_code, waits_for ->> 'for' AS waits_for
FROM buildqueue_buildjob LEFT JOIN buildqueue_jobprogress ON job_id = id
"""
RUNS = """
SELECT id, job_id AS job, attempt, started_at, ended_at, outcome, serial_key
FROM buildqueue_jobrun
"""
EVENTS = """
SELECT id, job_id AS job, run, kind, title, created_at AS at,
       COALESCE(detail ->> 'action', '') AS action,
       pg_xact_commit_timestamp(xmin) AS committed
FROM buildqueue_jobevent ORDER BY id
"""
EFFECTS = """
SELECT job, effect AS name, lease, attempt, pg_xact_commit_timestamp(xmin) AS committed
FROM chaos_ledger
"""
CHECKPOINTS = """
SELECT job_id AS job, step AS name, lease_id AS lease, attempt,
       pg_xact_commit_timestamp(xmin) AS committed
FROM buildqueue_checkpoint
"""
ACTIONS = "SELECT id, job_id AS job, status FROM buildqueue_jobaction"


def load() -> dict[str, Any]:
    """Return the parts of a history that the database knows."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        found = [_job(row) for row in _rows(JOBS)]
        jobs: Mapping[UUID, Job] = {job.id: job for job in found}
        return {
            "jobs": jobs,
            "runs": tuple(Run(**row) for row in _rows(RUNS)),
            "events": tuple(Event(**row) for row in _rows(EVENTS)),
            "effects": tuple(Write(**row) for row in _rows(EFFECTS)),
            "checkpoints": tuple(Write(**row) for row in _rows(CHECKPOINTS)),
            "actions": tuple(Action(**row) for row in _rows(ACTIONS)),
            "now": datetime.now().astimezone(),
        }


def _job(row: dict[str, Any]) -> Job:
    payload = json.loads(row.pop("payload"))
    row["parent"] = row.pop("parent_id")
    row["waits_for"] = row["waits_for"] or ""
    return Job(
        **row,
        expected=payloads.expected(payload),
        left_open=bool(payload.get("left_open")),
    )


def _rows(statement: str) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
