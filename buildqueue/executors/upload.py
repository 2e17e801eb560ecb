"""How does an uploaded zip become a running agent?

fetch source, unpack, build, deploy beside what runs, wait until it is healthy,
activate. Every phase may be run again: a repeated attempt works in a folder of its own,
reuses a finished artifact, and starts an instance of its own, which ends those of
earlier attempts. Until the activation the old instance answers; when the process dies
after it, the next attempt switches once more and the job still ends right.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from .. import conf
from ..builds import lifecycle, results, sources, versions
from ..builds.lifecycle import opening, progress
from ..builds.payloads import SourceFile, Upload
from ..exceptions import Rejected
from ..queue.context import Context
from ..queue.handlers import handler
from ..queue.limits import Limits
from ..queue.outcomes import Done
from . import base, host
from .base import BuildRun

if TYPE_CHECKING:
    from ..backends.base import BuiltArtifact, Runtime

DEFAULT_PORTS = (8000,)
LOG_LINES = 20


@handler(
    "upload",
    payload=Upload,
    aliases=("Upload",),
    isolated=True,
    services=base.SERVICES,
    limits=Limits(time_seconds=conf.get().build_time_limit_seconds),
    on_final=lifecycle.on_final,
    on_reopen=lifecycle.on_reopen,
)
def upload(ctx: Context, payload: Upload) -> Done:
    """Build the source and lead the agent's address to it."""
    base.check_target(ctx, payload.agent_id)
    run = BuildRun(ctx=ctx, build_id=payload.build_id, agent_id=payload.agent_id)
    with run.folder() as folder:
        tree = _source(run, payload, folder)
        version = _version(payload, tree)
        with run.phase("build"):
            artifact = _build(run, tree, version)
    used, ports = (
        base.running_runtime(),
        payload.ports or artifact.ports or DEFAULT_PORTS,
    )
    with run.ended_unless_healthy(used):
        with run.phase("deploy"):
            _start(run, payload, artifact, ports, used)
        with run.phase("health"):
            card = _wait_healthy(run, used)
        ctx.check_lease()
    with run.phase("activate"):
        address = _promote(run, used)
    result = results.Deployed(
        build_id=payload.build_id,
        version=version,
        image_reference=artifact.reference,
        digest=artifact.digest,
        ports=ports,
        deployment_id=run.deployment_id,
        service_url=address,
        runtime=used.name,
        host=host.host_id(),
        card=results.card_of(card),
    )
    return Done(result=result.model_dump(mode="json"))


def _source(run: BuildRun, payload: Upload, folder: Path) -> Path:
    """Return the unpacked source."""
    from ..backends.archives import extract_zip

    archive, tree = folder / "source.zip", folder / "source"
    with run.phase("fetch source"):
        if isinstance(payload.source, SourceFile):
            archive = _file_of(payload.source)
        else:
            sources.fetch(payload.source, archive)
            run.ctx.log(f"source has {payload.source.size} bytes, checksum is right")
    with run.phase("unpack"):
        report = extract_zip(archive, tree, sources.zip_limits())
        run.ctx.log(f"unpacked {len(report.files)} files")
    return tree


def _file_of(source: SourceFile) -> Path:
    """Return the zip that another system put onto this host."""
    file = Path(source.zip_path)
    if not file.is_absolute() or file.is_symlink() or not file.is_file():
        raise Rejected(
            "source_missing",
            "the zip of this job is not on this host; upload it again",
        )
    return file


def _version(payload: Upload, tree: Path) -> str:
    """Return the reserved version; of a job that reserved none a free one."""
    return opening.version_for(
        payload.agent_id,
        payload.build_id,
        given=payload.agent_version,
        stated=versions.read_version(tree),
    )


def _build(run: BuildRun, tree: Path, version: str) -> BuiltArtifact:
    from ..backends.base import BuildRequest

    request = BuildRequest(
        target_id=str(run.agent_id),
        version=version,
        source_dir=tree,
        timeout_seconds=conf.get().build_time_limit_seconds,
    )
    artifact = base.builder().build(request, run.ctx.log)
    run.ctx.log(f"artifact {artifact.reference}")
    return artifact


def _start(
    run: BuildRun,
    payload: Upload,
    artifact: BuiltArtifact,
    ports: tuple[int, ...],
    used: Runtime,
) -> None:
    from ..backends.base import WorkloadSpec

    made = progress.NewDeployment(
        id=run.deployment_id,
        image=artifact.reference,
        ports=ports,
        owner_id=payload.agent_owner_id,
        runtime=used.name,
        host=host.host_id(),
    )
    progress.begin_deployment(run.fence, made)
    started = used.start(
        WorkloadSpec(
            workload_id=str(run.agent_id),
            instance_id=str(run.deployment_id),
            reference=artifact.reference,
            env=payload.env,
        )
    )
    run.ctx.log(f"instance {started.instance_id}, confined by {started.confined}")


def _wait_healthy(run: BuildRun, used: Runtime) -> Mapping[str, object] | None:
    """Return the agent's card once the instance answers; Rejected when it does not."""
    from ..backends.localruntime.health import wait_healthy

    agent, instance = str(run.agent_id), str(run.deployment_id)
    report = wait_healthy(
        used,
        agent,
        instance,
        tries=conf.get().health_tries,
        interval=conf.get().health_interval_seconds,
        on_line=run.ctx.log,
        cancelled=run.lease_watch(),
    )
    if report.healthy:
        return report.card
    lines = "\n".join(used.logs(agent, instance, LOG_LINES))
    run.ctx.log(f"unhealthy: {report.reason}")
    progress.fail_deployment(
        run.fence, run.deployment_id, reason=report.reason, logs=lines
    )
    reason = report.reason
    if lines and lines not in reason:
        reason = f"{reason}; its last lines:\n{lines}"
    raise Rejected("unhealthy", f"the new instance is not healthy: {reason}")


def _promote(run: BuildRun, used: Runtime) -> str:
    """Lead the address to the new instance and return it."""
    workload = used.promote(str(run.agent_id), str(run.deployment_id))
    if workload.address is None:
        raise Rejected("no_address", "the runtime gave the agent no address")
    run.ctx.log(f"the agent answers at {workload.address}")
    return workload.address
