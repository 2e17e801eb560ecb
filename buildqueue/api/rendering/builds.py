"""How does a build become an answer? Without its token, environment, and credentials."""

from __future__ import annotations

from typing import Any

from ...models import AgentBuild, McpConnectorBuild
from .. import schemas
from .common import address, fault_of, plain_url


def build_of(row: AgentBuild, *, logs: bool, job: bool = True) -> schemas.Build:
    """Return a build's answer; with its last lines and its job, where both are seen."""
    links = {
        "self": address("build", row.pk),
        "log": address("build_log", row.pk),
        "agent": address("agent", row.agent_id),
    }
    return schemas.Build(
        agent_id=row.agent_id,
        agent_name=row.agent.name,
        version=row.version_tag,
        commit_hash=row.commit_hash,
        source_sha256=row.source_sha256,
        links=_with_job(links, row, job=job),
        **_common(row, logs=logs),
    )


def connector_build_of(row: McpConnectorBuild, *, logs: bool) -> schemas.ConnectorBuild:
    """Return the answer of a connector's build."""
    links = {"connector": address("connector", row.connector_id)}
    return schemas.ConnectorBuild(
        connector_id=row.connector_id,
        version=row.version_tag,
        detected_runtime=row.detected_runtime,
        links=_with_job(links, row, job=True),
        **_common(row, logs=logs),
    )


def _common(row: AgentBuild | McpConnectorBuild, *, logs: bool) -> dict[str, Any]:
    return {
        "id": row.pk,
        "status": row.status,
        "phase": row.phase,
        "source": _source_of(row),
        "error": fault_of(row.error_code, row.error_msg),
        "hint": row.hint,
        "exit_code": row.exit_code,
        "logs": row.logs if logs else None,
        "triggered_by": row.triggered_by,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "completed_at": row.completed_at,
        "job_id": row.job_id,
    }


def _source_of(row: AgentBuild | McpConnectorBuild) -> schemas.BuildSource:
    if row.github_url:
        return schemas.BuildSource(
            type="git",
            url=plain_url(row.github_url),
            ref=row.source_ref,
            commit=row.commit_hash,
        )
    if row.source_key:
        return schemas.BuildSource(
            type="archive", sha256=row.source_sha256, size=row.source_size
        )
    return schemas.BuildSource(type="version")  # deployed again as it was built


def _with_job(
    links: schemas.Links, row: AgentBuild | McpConnectorBuild, *, job: bool
) -> schemas.Links:
    if not (row.job_id and job):
        return links
    return links | {"job": address("job", row.job_id)}
