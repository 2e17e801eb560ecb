"""Can anybody, raw SQL included, store a row that makes no sense? No: each is refused
by a constraint that says which rule it broke."""

from __future__ import annotations

import re

import psycopg
import pytest
from django.apps import apps
from django.db import IntegrityError, connection, models, transaction

from buildqueue import states

from .rows import ILLEGAL, LEGAL, Illegal, Row, insert, make_references

pytestmark = pytest.mark.django_db

STATUS_CHECKS: dict[str, type[models.TextChoices]] = {
    "chk_build_jobs_status": states.JobStatus,
    "chk_agents_status": states.AgentStatus,
    "chk_agent_builds_status": states.BuildStatus,
    "chk_agent_versions_status": states.VersionStatus,
    "chk_agent_deployments_status": states.DeploymentStatus,
    "chk_connectors_build_status": states.ConnectorStatus,
    "chk_connectors_setup_status": states.ConnectorSetupStatus,
    "chk_connectors_provider": states.ConnectorProvider,
    "chk_connectors_source": states.ConnectorSource,
    "chk_connectors_auth": states.ConnectorAuth,
    "chk_connector_builds_status": states.ConnectorBuildStatus,
    "chk_job_runs_outcome": states.RunOutcome,
    "chk_workers_status": states.WorkerStatus,
    "chk_job_actions_status": states.ActionStatus,
    "chk_notices_status": states.NoticeStatus,
    "chk_source_watches_status": states.WatchStatus,
    "chk_source_watches_mode": states.WatchMode,
    "chk_proposals_status": states.ProposalStatus,
}


def _checks_in_the_database() -> dict[str, str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint "
            "WHERE contype = 'c' AND conrelid::regclass::text LIKE 'buildqueue\\_%'"
        )
        return dict(cursor.fetchall())


def _insert_as_committed(table: str, row: Row, references: dict[str, str]) -> None:
    """Insert and have deferred constraints looked at, as the commit would."""
    insert(table, row, references)
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


@pytest.mark.parametrize("table", sorted(LEGAL))
def test_the_least_row_of_a_table_is_taken(table: str) -> None:
    references = make_references()

    _insert_as_committed(table, LEGAL[table], references)


@pytest.mark.parametrize("case", ILLEGAL, ids=str)
def test_an_illegal_row_is_refused_by_its_constraint(case: Illegal) -> None:
    references = make_references()
    for row in case.after:
        insert(case.table, LEGAL[case.table] | row, references)

    with pytest.raises(IntegrityError) as refused, transaction.atomic():
        insert(case.table, LEGAL[case.table] | case.changes, references)

    cause = refused.value.__cause__
    assert isinstance(cause, psycopg.Error)
    assert cause.diag.constraint_name == case.constraint


def test_every_check_of_the_database_refuses_a_row_of_the_table() -> None:
    tried = {case.constraint for case in ILLEGAL}

    assert set(_checks_in_the_database()) - tried == set()


def test_every_constraint_of_the_models_is_in_the_table_of_illegal_rows() -> None:
    declared = {
        constraint.name
        for model in apps.get_app_config("buildqueue").get_models()
        for constraint in model._meta.constraints
        if not model._meta.proxy
    }

    assert declared == {case.constraint for case in ILLEGAL}


@pytest.mark.parametrize(
    ("constraint", "choices"), STATUS_CHECKS.items(), ids=list(STATUS_CHECKS)
)
def test_a_status_check_names_the_statuses_of_states(
    constraint: str, choices: type[models.TextChoices]
) -> None:
    definition = _checks_in_the_database()[constraint]

    assert set(re.findall(r"'(\w+)'", definition)) == set(choices.values)


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("buildjob", "payload"),
        ("buildjob", "status"),
        ("buildjob", "queue"),
        ("agent", "name"),
        ("agent", "owner_id"),
        ("agentbuild", "agent_id"),
        ("agentversion", "version"),
        ("agentdeployment", "build_id"),
        ("mcpconnector", "provider_type"),
        ("mcpconnectorbuild", "owner_id"),
        ("jobrun", "job_id"),
        ("jobevent", "job_id"),
        ("checkpoint", "step"),
        ("jobaction", "content"),
        ("jobaction", "content_hash"),
        ("jobprogress", "state"),
        ("notice", "body"),
    ],
)
def test_a_column_that_must_be_there_is_named_when_it_is_not(
    table: str, column: str
) -> None:
    references = make_references()
    row: Row = LEGAL[table] | {column: None}

    with pytest.raises(IntegrityError) as refused, transaction.atomic():
        insert(table, row, references)

    cause = refused.value.__cause__
    assert isinstance(cause, psycopg.Error)
    assert cause.diag.column_name == column


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("buildjob", "agent_id"),
        ("buildjob", "connector_id"),
        ("jobrun", "job_id"),
        ("jobevent", "job_id"),
        ("checkpoint", "job_id"),
        ("jobaction", "job_id"),
        ("jobprogress", "job_id"),
        ("agentbuild", "agent_id"),
        ("agentversion", "agent_id"),
        ("agentdeployment", "agent_id"),
        ("mcpconnectorbuild", "connector_id"),
        ("buildjob", "parent_id"),
        ("agentbuild", "job_id"),
        ("agentbuild", "version_id"),
        ("agentversion", "build_id"),
        ("mcpconnectorbuild", "job_id"),
    ],
)
def test_a_key_to_nothing_is_refused_by_name(table: str, column: str) -> None:
    references = make_references()
    nothing = "00000000-0000-0000-0000-00000000dead"

    with pytest.raises(IntegrityError) as refused, transaction.atomic():
        _insert_as_committed(table, LEGAL[table] | {column: nothing}, references)

    cause = refused.value.__cause__
    assert isinstance(cause, psycopg.Error)
    assert cause.diag.constraint_name == f"buildqueue_{table}_{column}_fk"
