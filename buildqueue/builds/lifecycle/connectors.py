"""What becomes of a connector's build, tools and status when its job ends?

The same promises as for agents: job and build agree, and a connector whose new build
failed is what its last good build made it. All within the transaction that ends the job.
"""

from __future__ import annotations

from django.db.models.functions import Now

from ...exceptions import Refused, ResultMissing
from ...models import BuildJob, McpConnector, McpConnectorBuild
from ...states import ConnectorBuildStatus, ConnectorStatus, JobStatus
from .. import failures, results, sources
from ..connectors import removal
from ..payloads import ConnectorDelete, ConnectorEnd
from . import progress
from .connectorrows import (
    OPEN,
    lock_build,
    lock_connector,
    move_build,
    runs,
    settle,
    store_tools,
    update,
)

# From here on a killed attempt may have left an instance.
STARTED_PHASES = ("deploy", "health", "activate")


def finish(job: BuildJob) -> None:
    """Drive the connector and its build to a final state."""
    connector = lock_connector(job.connector_id)
    if connector is None:
        return  # a raw DELETE took the job along, or is about to
    build = lock_build(job, connector)
    if job.status == JobStatus.DONE:
        _succeed(job, connector, build)
    else:
        _fail(job, connector, build)


def reopen(job: BuildJob) -> None:
    """Put the build and the connector back to pending."""
    connector = lock_connector(job.connector_id)
    if connector is None or connector.deleted_at is not None:
        raise Refused("connector_deleted", "the connector was deleted", status=409)
    build = lock_build(job, connector)
    if build is None:
        raise Refused("build_missing", "the job has no build any more", status=409)
    if build.source_key and not sources.renew(build.source_key):
        raise Refused(
            "source_missing", "the source is no longer kept; upload it anew", status=409
        )
    queued = move_build(
        build,
        (*OPEN, ConnectorBuildStatus.FAILED),
        status=ConnectorBuildStatus.PENDING,
        completed_at=None,
        phase=None,
        exit_code=None,
        hint=None,
        logs=None,
        error_code=None,
        error_msg=None,
    )
    if not queued:
        raise Refused(
            "build_ended", f"the build is {build.status}; upload anew", status=409
        )
    if not runs(connector):
        update(connector, build_status=ConnectorStatus.PENDING)


def _succeed(
    job: BuildJob, connector: McpConnector, build: McpConnectorBuild | None
) -> None:
    result = results.connector_deployed(job)
    if build is None or build.pk != result.build_id:
        raise ResultMissing("the job said done, but its build's row is not there")
    if connector.deleted_at is not None:
        raise ResultMissing("the connector was deleted while it was being deployed")
    if not move_build(
        build,
        OPEN,
        status=ConnectorBuildStatus.SUCCESS,
        image_tag=result.image_reference,
        host=result.host,
        completed_at=Now(),
        error_code=None,
        error_msg=None,
        hint=None,
    ):
        raise ResultMissing(f"the job said done, but its build is {build.status}")
    update(
        connector,
        build_status=ConnectorStatus.RUNNING,
        url=result.service_url,
        container_image_tag=result.image_reference,
        is_active=True,
        runtime=result.runtime,
        host=result.host,
        instance_id=result.instance_id,
        build_secrets_env={**connector.build_secrets_env, **build.secrets_env},
        restart_count=0,
        crash_reason=None,
        crashed_at=None,
        last_logs=None,
    )
    store_tools(connector, result.tools)


def _fail(
    job: BuildJob, connector: McpConnector, build: McpConnectorBuild | None
) -> None:
    if build is not None:
        code = progress.code_of(job, build)
        move_build(
            build,
            OPEN,
            status=ConnectorBuildStatus.FAILED,
            error_code=code,
            error_msg=job.error_msg or job.status,
            hint=failures.last_hint_of(code),
            completed_at=Now(),
        )
        _end_begun(connector, build)
    settle(connector)


def _end_begun(connector: McpConnector, build: McpConnectorBuild) -> None:
    """Have what the run began ended; one that was killed could not do so itself."""
    if connector.deleted_at is not None:
        removal.request(connector, ConnectorDelete(connector_id=connector.pk))
    elif build.host and build.phase in STARTED_PHASES:
        removal.request_end(
            connector, ConnectorEnd(connector_id=connector.pk), host=build.host
        )
