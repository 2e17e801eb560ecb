"""How does an agent go back to an earlier version, or forward to one that waits?

Its artifact is deployed as it is. On a host that does not have it, it is built again
from the source it came from, to the same reference; when that is not kept either, the
job fails before anything has changed.
"""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from ..backends.masking import Masker
from ..builds import environment
from ..builds.lifecycle import deploying as rows
from ..builds.payloads import Rollback, Spec, StoredSource
from ..exceptions import Rejected
from ..models import Agent, AgentBuild, AgentVersion
from ..queue import database
from ..queue.context import Context
from ..queue.handlers import handler
from ..queue.outcomes import Done
from ..states import VersionStatus
from . import agents, base, building, gathering
from .base import BuildRun
from .instances import Instance


@handler("rollback", payload=Rollback, aliases=("Rollback",), **agents.OPTIONS)
def rollback(ctx: Context, payload: Rollback) -> Done:
    """Deploy the version again, beside what runs, and switch."""
    base.check_target(ctx, payload.agent_id)
    agent = Agent.objects.using(database.alias()).get(pk=payload.agent_id)
    version = _version(agent, payload.target_version)
    env = environment.environment_of(agent, {})
    run = BuildRun(
        ctx=ctx,
        target_id=agent.pk,
        build_id=payload.build_id,
        masker=Masker(env.values()),
    )
    with run.folder() as folder:
        reference, ports = _artifact(run, version, payload, folder)
        used = base.running_runtime()
        asked = Instance(
            agent=agent,
            build_id=payload.build_id,
            reference=reference,
            spec=Spec(writable=payload.writable, writable_path=payload.writable_path),
            declared=ports,
            env=env,
        )
        live = asked.deploy(run, used)
        agents.clean(run, folder)
    result = asked.result(
        live,
        used,
        version=version.version,
        digest=reference.rpartition("@")[2],
        built=False,
    )
    return Done(result=result.model_dump(mode="json"))


def _version(agent: Agent, wanted: str) -> AgentVersion:
    mine = AgentVersion.objects.using(database.alias()).filter(agent=agent)
    found = mine.filter(version=wanted).first()
    if found is None or found.status == VersionStatus.BUILDING:
        raise Rejected(
            "version_missing", f"version {wanted} is not there any more; choose another"
        )
    return found


def _artifact(
    run: BuildRun, version: AgentVersion, payload: Rollback, folder: Path
) -> tuple[str, tuple[int, ...]]:
    """Return the reference of the version's artifact, which is on this host."""
    reference = version.image_tag or payload.target_image_tag
    source = _source_of(version.build_id)
    with run.phase("verify", again=True):
        if base.builder().exists(reference):
            run.log(f"{reference} is here")
            return reference, rows.ports_of(run.target_id, reference)
        if source is None:
            raise Rejected(
                "artifact_missing",
                f"what was built for version {version.version} is gone, and its source "
                "is not kept any more: upload it as a new version",
            )
        run.log(f"{reference} is not on this host: it is built again from its source")
    tree = gathering.gather(run, source, folder, token=lambda: None)
    artifact = building.build(run, tree, version.version)
    building.publish(run, artifact)
    return artifact.reference, artifact.ports


def _source_of(build_id: UUID | None) -> StoredSource | None:
    builds = AgentBuild.objects.using(database.alias())
    build = builds.filter(pk=build_id).first() if build_id else None
    if build is None or not build.source_key or not build.source_sha256:
        return None
    source = StoredSource(
        key=build.source_key, sha256=build.source_sha256, size=build.source_size or 0
    )
    return source if gathering.is_kept(source) else None
