"""What becomes of build, version, deployment and agent when an agent's job ends?

Done: the build is a success, its version active, its deployment the running one.
Otherwise: the build has failed with the job's reason, its version is free again, and
the agent is what it was before. All within the transaction that ends the job.
"""

from __future__ import annotations

from typing import Any

from django.db.models.functions import Now

from ...exceptions import Refused, ResultMissing
from ...models import Agent, AgentBuild, AgentDeployment, AgentVersion, BuildJob
from ...queue import database
from ...states import (
    AgentStatus,
    BuildStatus,
    DeploymentStatus,
    JobStatus,
    VersionStatus,
)
from .. import removal, results, sources, versions
from ..payloads import AgentDelete
from ..results import Deployed
from .rows import deployments, lock_agent, lock_build, move_build, settle


def finish(job: BuildJob) -> None:
    """Drive everything that hangs on an agent's ended job to its end."""
    assert job.agent_id is not None
    agent = lock_agent(job.agent_id)
    if agent is None:
        return  # a raw DELETE took the job along, or is about to
    build = lock_build(job, agent)
    if job.status == JobStatus.DONE:
        _succeed(job, agent, build)
    else:
        _fail(job, agent, build)


def reopen(job: BuildJob) -> None:
    """Queue the build again, reserve its version again, show the agent as deploying."""
    assert job.agent_id is not None
    agent = lock_agent(job.agent_id)
    if agent is None or agent.deleted_at is not None:
        raise Refused(
            "agent_deleted", "the agent was deleted; upload it anew", status=409
        )
    build = lock_build(job, agent)
    if build is None:
        raise Refused(
            "build_missing", "the job has no build any more; upload anew", status=409
        )
    if build.source_key and not sources.exists(build.source_key):
        raise Refused(
            "source_missing", "the source is no longer kept; upload it anew", status=409
        )
    if versions.numbers(build.version_tag) is not None:
        versions.reserve(agent, build)
    queued = {"phase": None, "error_code": None, "error_msg": None}
    if not move_build(build, BuildStatus.QUEUED, completed_at=None, **queued):
        raise Refused(
            "build_ended", f"the build is {build.status}; upload anew", status=409
        )
    _agents(agent).update(status=AgentStatus.DEPLOYING)


def _succeed(job: BuildJob, agent: Agent, build: AgentBuild | None) -> None:
    result = results.deployed(job)
    if build is None or build.pk != result.build_id:
        raise ResultMissing("the job said done, but its build's row is not there")
    if agent.deleted_at is not None:
        raise ResultMissing("the agent was deleted while it was being deployed")
    version = _activate(agent, build, result)
    ended = {"error_code": None, "error_msg": None, "completed_at": Now()}
    if not move_build(
        build,
        BuildStatus.SUCCESS,
        image_reference=result.image_reference,
        version_tag=result.version,
        version_id=version.pk,
        **ended,
    ):
        raise ResultMissing(f"the job said done, but its build is {build.status}")
    _switch(agent, build, result)
    _present(agent, result)
    settle(agent)


def _activate(agent: Agent, build: AgentBuild, result: Deployed) -> AgentVersion:
    rows = AgentVersion.objects.using(database.alias()).filter(agent=agent)
    version = rows.filter(version=result.version).first()
    if version is None:  # nobody reserved it: the job came from another system
        if versions.numbers(result.version) is None:
            raise ResultMissing(f"{result.version!r} is no version x.y.z")
        version = AgentVersion(agent=agent, version=result.version)
    elif version.build_id != build.pk and version.status != VersionStatus.PUSHED:
        raise ResultMissing(f"version {result.version} belongs to another build")
    before = rows.filter(is_active=True).exclude(pk=version.pk).first()
    if before is not None:
        rows.filter(pk=before.pk).update(
            is_active=False, status=VersionStatus.ARCHIVED, can_rollback=True
        )
    version.build_id = build.pk
    version.image_tag = result.image_reference
    version.is_active, version.status = True, VersionStatus.ACTIVE
    version.can_rollback = False
    version.previous_version = before.version if before else None
    version.save(using=database.alias())
    return version


def _switch(agent: Agent, build: AgentBuild, result: Deployed) -> None:
    """Make the new deployment the running one; the others are history."""
    others = deployments(agent.pk).exclude(pk=result.deployment_id)
    replaced = [DeploymentStatus.RUNNING, DeploymentStatus.CRASHED]
    others.filter(status__in=replaced).update(status=DeploymentStatus.STOPPED)
    others.filter(status=DeploymentStatus.STARTING, build=build).update(
        status=DeploymentStatus.FAILED, crash_reason="its attempt was cut short"
    )
    AgentDeployment.objects.using(database.alias()).update_or_create(
        pk=result.deployment_id,
        defaults={
            "agent": agent,
            "build": build,
            "owner_id": agent.owner_id,
            "status": DeploymentStatus.RUNNING,
            "service_url": result.service_url,
            "spec_image": result.image_reference,
            "spec_ports": list(result.ports),
            "runtime": result.runtime,
            "host": result.host,
        },
    )


def _present(agent: Agent, result: Deployed) -> None:
    """Take over what the agent says of itself; a card that says less changes less."""
    card, values = result.card, dict[str, Any]()
    if isinstance(name := card.get("name"), str):
        values["display_name"] = name
    if isinstance(description := card.get("description"), str):
        values["description"] = description
    if isinstance(skills := card.get("skills"), list):
        values["skills"] = skills
    if isinstance(capabilities := card.get("capabilities"), dict):
        values["capabilities"] = capabilities
    if card:
        kept = agent.metadata if isinstance(agent.metadata, dict) else {}
        values["metadata"] = {**kept, "card": card}
    if values:
        _agents(agent).update(**values)


def _fail(job: BuildJob, agent: Agent, build: AgentBuild | None) -> None:
    if build is not None:
        move_build(
            build,
            BuildStatus.FAILED,
            error_code=job.error_code or job.status,
            error_msg=job.error_msg or job.status,
            completed_at=Now(),
        )
        versions.release(build)
        _end_begun(job, agent, build)
    if agent.status == AgentStatus.DEPLOYING:
        settle(agent)


def _end_begun(job: BuildJob, agent: Agent, build: AgentBuild) -> None:
    """Fail the deployment that the run began, and have its instance ended.

    A run that could do so has done it itself; one that was killed could not.
    """
    begun = deployments(agent.pk).filter(build=build, status=DeploymentStatus.STARTING)
    if agent.deleted_at is not None:
        removal.request(agent, AgentDelete(agent_id=agent.pk))
    else:
        removal.request_end(agent, begun)
    begun.update(
        status=DeploymentStatus.FAILED, crash_reason=job.error_msg or job.status
    )


def _agents(agent: Agent) -> Any:
    return Agent.objects.using(database.alias()).filter(pk=agent.pk)
