"""What do the executors of connectors share? Targets, workloads, and tools that are told.

What a server says of itself is masked like its output: it may name its own secrets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ..backends.masking import Masker
from ..builds import environment
from ..exceptions import Rejected
from ..models import McpConnector
from ..queue import database, storing
from ..queue.context import Context

if TYPE_CHECKING:
    from ..backends.base import WorkloadSpec
    from ..backends.mcpprobe import Tool


def target(ctx: Context, connector_id: UUID) -> McpConnector:
    """Return the connector of the job; refuse a payload that names another one.

    Serial key, owner and final hook go by the job's; another's stays untouched.
    """
    if ctx.job.connector_id != connector_id:
        raise Rejected(
            "wrong_target",
            "the payload names another connector than the job; ask for a new job",
        )
    return McpConnector.objects.using(database.alias()).get(pk=connector_id)


def environment_of(
    connector: McpConnector, secrets_env: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of a server; `secrets_env` are a build's ciphertexts."""
    return environment.environment_of(connector, secrets_env)


def workload(
    connector_id: UUID, instance_id: UUID, reference: str, env: Mapping[str, str]
) -> WorkloadSpec:
    """Return what the runtime is to run for a connector."""
    from ..backends.base import WorkloadSpec

    return WorkloadSpec(
        workload_id=str(connector_id),
        instance_id=str(instance_id),
        reference=reference,
        env=env,
    )


def endpoint(address: str) -> str:
    """Return the URL of the server behind an address."""
    from ..backends.mcpprobe import PATH

    return f"{address}{PATH}"


def told(tools: Iterable[Tool], masker: Masker) -> list[dict[str, Any]]:
    """Return the tools as they are stored: as JSON, without any secret."""
    described = [
        {
            "name": tool.name,
            "title": tool.title,
            "description": tool.description,
            "input_schema": tool.input_schema,
        }
        for tool in tools
    ]
    return storing.sequence(masker.mask_all(described), "the list of tools")
