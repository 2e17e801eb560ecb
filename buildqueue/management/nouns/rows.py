"""Which facts of agents, builds and connectors are told? As data, without a secret."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...models import (
    Agent,
    AgentBuild,
    AgentDeployment,
    AgentVersion,
    BuildJob,
    McpConnector,
    McpConnectorBuild,
)
from .showing import fields, plain_url

# What no answer ever has, and so no query reads.
HIDDEN = ("source_token", "secrets_env")


def agent(row: Agent) -> dict[str, Any]:
    """Return an agent."""
    shown = (
        "id name display_name description owner_id status version url capabilities "
        "skills tags ports replicas resources writable writable_path is_public "
        "created_at updated_at deleted_at"
    )
    return fields(row, shown) | {"env": sorted(row.secrets_env)}


def asked(agent: Agent, status: str, jobs: Sequence[BuildJob]) -> dict[str, Any]:
    """Return what was asked of an agent, and the jobs that do it."""
    return {
        "status": status,
        "agent_id": agent.pk,
        "agent_name": agent.name,
        "job_id": jobs[0].pk if jobs else None,
        "job_ids": [job.pk for job in jobs],
    }


def version(row: AgentVersion) -> dict[str, Any]:
    """Return a version."""
    shown = (
        "id version status is_active can_rollback previous_version changelog build_id "
        "created_at"
    )
    return fields(row, shown)


def deployment(row: AgentDeployment) -> dict[str, Any]:
    """Return a deployment; its build is read with it."""
    shown = (
        "id build_id status replicas writable writable_path runtime host restart_count "
        "crash_reason crashed_at last_logs created_at updated_at"
    )
    return fields(row, shown) | {
        "version": row.build.version_tag,
        "url": plain_url(row.service_url),
        "ports": row.spec_ports,
        "env": sorted(row.spec_env),
        "resources": row.spec_resources,
    }


def build(row: AgentBuild) -> dict[str, Any]:
    """Return a build of an agent."""
    return {"agent_id": row.agent_id} | _build(row)


def connector(row: McpConnector) -> dict[str, Any]:
    """Return a connector."""
    shown = (
        "id name display_name description owner_id source_kind is_active host "
        "restart_count crash_reason crashed_at last_logs created_at updated_at "
        "deleted_at"
    )
    return fields(row, shown) | {
        "status": row.build_status,
        "url": plain_url(row.url),
        "env": sorted(row.build_secrets_env),
    }


def connector_build(row: McpConnectorBuild) -> dict[str, Any]:
    """Return a build of a connector."""
    told = {"connector_id": row.connector_id, "detected_runtime": row.detected_runtime}
    return told | _build(row)


def _build(row: AgentBuild | McpConnectorBuild) -> dict[str, Any]:
    shown = (
        "id status phase exit_code error_code error_msg hint job_id triggered_by host "
        "created_at updated_at completed_at"
    )
    return fields(row, shown) | {"version": row.version_tag, "source": _source(row)}


def _source(row: AgentBuild | McpConnectorBuild) -> dict[str, Any]:
    if row.github_url:
        return {
            "type": "git",
            "url": plain_url(row.github_url),
            "ref": row.source_ref,
            "commit": row.commit_hash,
            "secret": row.source_secret,
        }
    if row.source_key:
        return {
            "type": "archive",
            "sha256": row.source_sha256,
            "size": row.source_size,
        }
    return {"type": "version"}  # deployed again as it was built
