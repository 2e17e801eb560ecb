"""How does an uploaded source become the running server of an MCP connector?

fetch, verify, build, publish, deploy, health, activate, clean, as for agents. Healthy is
what shakes hands by MCP and lists its tools, which are stored with the job's end. Until
the activation the old server answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .. import conf
from ..backends.masking import Masker
from ..builds import results
from ..builds.lifecycle import connectoropening, progress
from ..builds.payloads import McpServerUpload
from ..exceptions import Rejected
from ..models import McpConnector, McpConnectorBuild
from ..queue import database
from ..queue.context import Context
from ..queue.handlers import handler
from ..queue.outcomes import Done
from ..states import ConnectorBuildStatus
from . import agents, base, building, connectors, deploying, gathering, host
from .base import BuildRun
from .deploying import Candidate

if TYPE_CHECKING:
    from ..backends.base import Runtime, WorkloadSpec

ID_LETTERS = 12  # of a build's id, enough to tell one connector's builds apart


@handler(
    "mcp_server_upload",
    payload=McpServerUpload,
    aliases=("McpServerUpload",),
    **agents.OPTIONS,
)
def mcp_server_upload(ctx: Context, payload: McpServerUpload) -> Done:
    """Build the source and lead the connector's address to its server."""
    connectors.target(ctx, payload.connector_id)
    connectoropening.keep_token(payload.connector_id)
    connector, build = _rows(payload)
    given = {**payload.env, **build.secrets_env}
    env = connectors.environment_of(connector, given)
    token = gathering.token_of(
        payload.source, connector.owner_id or "", build.source_token
    )
    run = BuildRun(
        ctx=ctx,
        target_id=connector.pk,
        build_id=build.pk,
        of_connector=True,
        masker=Masker([*env.values(), *([token] if token else [])]),
    )
    if payload.env:  # another system's: kept with the build, as ours are
        progress.write(run.fence, secrets_env=given)
    with run.folder() as folder:
        tree = gathering.gather(run, payload.source, folder, token=lambda: token)
        version = building.verify(run, tree, lambda path: _verified(run, payload, path))
        artifact = building.build(run, tree, version)
        building.publish(run, artifact)
        used = base.running_runtime()
        server = _Server(run=run, used=used, reference=artifact.reference, env=env)
        live = deploying.deploy(run, used, server.candidate())
        agents.clean(run, folder)
    result = results.ConnectorDeployed(
        build_id=build.pk,
        image_reference=artifact.reference,
        service_url=connectors.endpoint(live.address),
        instance_id=live.instance_id,
        runtime=used.name,
        host=host.host_id(),
        tools=live.said,
    )
    return Done(result=result.model_dump(mode="json"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    """The connector's next server, on its way behind the address."""

    run: BuildRun
    used: Runtime
    reference: str
    env: Mapping[str, str]

    def candidate(self) -> Candidate:
        return Candidate(
            spec_of=self._workload,
            begin=lambda spec: connectoropening.begin(
                self.run.fence, host=host.host_id()
            ),
            is_begun=lambda instance: self._is_open(),
            ask=self._tools,
            give_up=lambda instance, reason, logs: None,  # the build's row tells
        )

    def _workload(self, instance_id: UUID) -> WorkloadSpec:
        return connectors.workload(
            self.run.target_id, instance_id, self.reference, self.env
        )

    def _is_open(self) -> bool:
        rows = McpConnectorBuild.objects.using(database.alias())
        building = rows.filter(
            pk=self.run.build_id, status=ConnectorBuildStatus.BUILDING
        )
        return building.exists()

    def _tools(self, instance_id: UUID) -> list[dict[str, Any]]:
        from ..backends.mcpprobe import wait_ready

        tools = wait_ready(
            self.used,
            str(self.run.target_id),
            str(instance_id),
            tries=conf.get().health_tries,
            interval=conf.get().health_interval_seconds,
            on_line=self.run.log,
            cancelled=self.run.lease_watch(),
            mask=self.run.masker.mask,
        )
        return connectors.told(tools, self.run.masker)


def _rows(payload: McpServerUpload) -> tuple[McpConnector, McpConnectorBuild]:
    alias = database.alias()
    connector = McpConnector.objects.using(alias).get(pk=payload.connector_id)
    mine = McpConnectorBuild.objects.using(alias).filter(connector=connector)
    build = mine.filter(pk=payload.build_id).first()
    if build is None:
        raise Rejected("build_missing", "the build's row is gone; ask for a new build")
    return connector, build


def _verified(run: BuildRun, payload: McpServerUpload, tree: Path) -> str:
    """Return the version of the artifact, and write what the server is written in.

    A connector's version may be given twice, and its artifact must never replace the one
    that runs: the build's id is part of it.
    """
    progress.write(run.fence, detected_runtime=language_of(tree))
    tag = payload.version_tag or "1.0.0"
    return f"{tag}-{payload.build_id.hex[:ID_LETTERS]}"


def language_of(tree: Path) -> str:
    """Return what the source seems to be written in: a hint for its owner."""
    if (tree / "package.json").is_file():
        return "node"
    has_python = any(tree.glob("*.py")) or any(tree.glob("src/*.py"))
    return "python" if has_python else "unknown"
