"""How do an agent and its history become answers? Of an environment, the names alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...models import Agent, AgentDeployment, AgentGrant, AgentVersion
from .. import schemas
from .common import address, cut, plain_url, shown_object

PARTS = (
    "versions",
    "deployments",
    "env",
    "grants",
    "watches",
    "proposals",
    "update",
    "rollback",
    "deploy",
    "start",
    "restart",
    "scale",
    "stop",
)


def agent_of(row: Agent) -> schemas.AgentOut:
    """Return an agent's answer."""
    own = address("agent", row.pk)
    return schemas.AgentOut(
        id=row.pk,
        name=row.name,
        display_name=row.display_name,
        description=row.description,
        owner_id=row.owner_id,
        status=row.status,
        version=row.version,
        url=row.url,
        capabilities=cut(row.capabilities),
        skills=cut(row.skills),
        tags=row.tags,
        ports=row.ports,
        replicas=row.replicas,
        resources=shown_object(row.resources),
        writable=row.writable,
        writable_path=row.writable_path,
        is_public=row.is_public,
        created_at=row.created_at,
        updated_at=row.updated_at,
        links={"self": own} | {part: f"{own}/{part}" for part in PARTS},
    )


def version_of(row: AgentVersion) -> schemas.Version:
    """Return a version's answer."""
    links = {"agent": address("agent", row.agent_id)}
    if row.build_id:
        links["build"] = address("build", row.build_id)
    return schemas.Version(
        id=row.pk,
        version=row.version,
        status=row.status,
        is_active=row.is_active,
        can_rollback=row.can_rollback,
        previous_version=row.previous_version,
        changelog=row.changelog,
        build_id=row.build_id,
        created_at=row.created_at,
        links=links,
    )


def deployment_of(row: AgentDeployment, *, env: bool, logs: bool) -> schemas.Deployment:
    """Return a deployment's answer: with the names of its environment, its last lines."""
    return schemas.Deployment(
        id=row.pk,
        build_id=row.build_id,
        version=row.build.version_tag,
        status=row.status,
        url=plain_url(row.service_url),
        ports=row.spec_ports,
        replicas=row.replicas,
        env=sorted(row.spec_env) if env else None,
        resources=shown_object(row.spec_resources),
        writable=row.writable,
        writable_path=row.writable_path,
        runtime=row.runtime,
        restart_count=row.restart_count,
        crash_reason=row.crash_reason,
        crashed_at=row.crashed_at,
        last_logs=row.last_logs if logs else None,
        created_at=row.created_at,
        updated_at=row.updated_at,
        links={
            "agent": address("agent", row.agent_id),
            "build": address("build", row.build_id),
        },
    )


def grants_of(rows: Iterable[AgentGrant], users: Mapping[str, str]) -> schemas.Grants:
    """Return the answer about an agent's grants; `users` are names by key."""
    return schemas.Grants(
        grants=[
            schemas.Grant(
                type=row.grant_type,
                grantee_id=row.grantee_id,
                user=users.get(row.grantee_id),
                can_manage=row.can_manage,
                created_at=row.created_at,
            )
            for row in rows
        ]
    )
