"""What is written when somebody asks for a connector's build, and when one begins to run?

The first in the caller's transaction, with the job: rolled back, nothing was asked for.
The second by the run that holds the lease.
"""

from __future__ import annotations

import secrets as randomness
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from ...exceptions import LostLeaseError, Refused, Rejected
from ...models import BuildJob, McpConnector, McpConnectorBuild
from ...models.expressions import ClockTimestamp
from ...queue import database
from ...states import (
    ConnectorBuildStatus,
    ConnectorProvider,
    ConnectorSource,
    ConnectorStatus,
)
from .. import secrets
from ..payloads import GitSource, StoredSource
from . import progress
from .connectorrows import lock_connector, runs, update
from .progress import Fence

TRIES = 3
TOKEN = "NASIKO_INTERNAL_TOKEN"  # noqa: S105  # a variable's name
TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class NewConnectorBuild:
    """A build that is asked for."""

    id: UUID
    version: str
    source: StoredSource | GitSource
    triggered_by: str
    secrets_env: Mapping[str, str]  # name to ciphertext
    source_token: str | None  # ciphertext


def open_connector(
    owner_id: str, name: str, *, display_name: str | None
) -> McpConnector:
    """Return the owner's live uploaded connector of that name, locked; made if new.

    Two first uploads of one name wait for each other here.
    """
    connectors = McpConnector.objects.using(database.alias())
    named = connectors.filter(owner_id=owner_id, name=name, deleted_at__isnull=True)
    for _ in range(TRIES):
        made = McpConnector(
            owner_id=owner_id,
            name=name,
            display_name=display_name,
            provider_type=ConnectorProvider.MCP_SERVER,
            source_kind=ConnectorSource.UPLOADED_BUILD,
            build_status=ConnectorStatus.PENDING,
            is_active=False,
        )
        connectors.bulk_create([made], ignore_conflicts=True)
        connector = named.select_for_update(no_key=True).first()
        if connector is None:
            continue
        if connector.source_kind != ConnectorSource.UPLOADED_BUILD:
            raise Refused(
                "connector_exists",
                f"{name} is a connector that is run elsewhere; take another name",
                status=409,
                fields={"name": "taken by a connector that is run elsewhere"},
            )
        if display_name is not None:
            update(connector, display_name=display_name)
        if not runs(connector):
            update(connector, build_status=ConnectorStatus.PENDING)
        connector.refresh_from_db(using=database.alias())
        return connector
    raise Refused(
        "connector_deleted", f"{name} is being deleted just now; try again", status=409
    )


def open_build(
    connector: McpConnector, asked: NewConnectorBuild, job: BuildJob
) -> McpConnectorBuild:
    """Make the pending build of a job."""
    build = McpConnectorBuild(
        id=asked.id,
        connector=connector,
        owner_id=connector.owner_id or "",
        job=job,
        version_tag=asked.version,
        status=ConnectorBuildStatus.PENDING,
        triggered_by=asked.triggered_by,
        secrets_env=dict(asked.secrets_env),
        source_token=asked.source_token,
    )
    match asked.source:
        case StoredSource(key=key, sha256=sha256, size=size):
            build.source_key, build.source_sha256 = key, sha256
            build.source_size = size
        case GitSource(url=url, ref=ref, commit=commit):
            build.github_url, build.source_ref = url, ref
            build.commit_hash = commit
    build.save(using=database.alias(), force_insert=True)
    build.refresh_from_db(using=database.alias())
    return build


def keep_token(connector_id: UUID) -> None:
    """Give the connector its internal token, unless it has one: once for life."""
    with database.atomic():
        connector = lock_connector(connector_id)
        if connector is None or TOKEN in connector.build_secrets_env:
            return
        made = secrets.encrypt(
            connector.owner_id or "", randomness.token_hex(TOKEN_BYTES)
        )
        env = {**connector.build_secrets_env, TOKEN: made}
        update(connector, build_secrets_env=env)


def begin(fence: Fence, *, host: str) -> None:
    """Write on which host an instance is about to be started.

    The connector is locked before the lease is looked at: a deletion either sees the
    host, or has taken the lease.
    """
    with database.atomic():
        connector = lock_connector(fence.target_id)
        held = BuildJob.objects.using(database.alias()).filter(
            pk=fence.job_id,
            lease_id=fence.lease_id,
            lease_until__gt=ClockTimestamp(),
        )
        if not held.exists():
            raise LostLeaseError(fence.job_id, fence.lease_id)
        if connector is None or connector.deleted_at is not None:
            raise Rejected("connector_deleted", "the connector was deleted")
        progress.write(fence, host=host)
