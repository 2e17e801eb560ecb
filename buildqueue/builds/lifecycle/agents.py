"""What becomes of build, version, deployment and agent when a build of an agent ends?

Done: the build is a success, its version active, its deployment the running one; of a
standalone build the version waits to be deployed. Otherwise: the build has failed with
the job's reason, its version is free again, and the agent is what it was before. All
within the transaction that ends the job.
"""

from __future__ import annotations

from typing import Any, Final

from django.db.models.functions import Now

from ...exceptions import Refused, ResultMissing
from ...models import Agent, AgentBuild, AgentVersion, BuildJob
from ...queue import database
from ...states import (
    AgentStatus,
    BuildStatus,
    DeploymentStatus,
    JobStatus,
    VersionStatus,
)
from .. import environment, failures, removal, results, secrets, sources, versions
from ..payloads import AgentDelete
from . import progress, switching
from .rows import (
    ROLLBACK,
    STANDALONE,
    deployments,
    has_open_build_job,
    lock_agent,
    lock_build,
    move_build,
    settle,
)

NO_FAULT: Final = {
    "error_code": None,
    "error_msg": None,
    "hint": None,
    "exit_code": None,
}


def finish(job: BuildJob) -> None:
    """Drive everything that hangs on an agent's ended job to its end."""
    assert job.agent_id is not None
    agent = lock_agent(job.agent_id)
    if agent is None:
        return  # a raw DELETE took the job along, or is about to
    build = lock_build(job, agent)
    _forget_clear_text(job, build)
    if job.status != JobStatus.DONE:
        _fail(job, agent, build)
    elif job.kind in STANDALONE:
        _push(job, agent, build)
    else:
        _deploy(job, agent, build)


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
    if build.source_key and not sources.renew(build.source_key):
        raise Refused(
            "source_missing", "the source is no longer kept; upload it anew", status=409
        )
    brought = {**environment.env_to_come(agent), **build.secrets_env}
    secrets.check_stored({**agent.secrets_env, **brought})
    reserves = job.kind not in ROLLBACK
    if reserves and versions.numbers(build.version_tag) is not None:
        versions.reserve(agent, build)
    again = {"completed_at": None, "phase": None, "logs": None, **NO_FAULT}
    if not move_build(build, BuildStatus.QUEUED, **again):
        raise Refused(
            "build_ended", f"the build is {build.status}; upload anew", status=409
        )
    if job.kind not in STANDALONE:
        _agents(agent).update(status=AgentStatus.DEPLOYING)


def _deploy(job: BuildJob, agent: Agent, build: AgentBuild | None) -> None:
    result = results.deployed(job)
    build = _checked(agent, build, result)
    version = switching.switch(agent, build, result)
    _succeed(build, result, version)
    settle(agent)


def _push(job: BuildJob, agent: Agent, build: AgentBuild | None) -> None:
    """Keep what a standalone build has made, ready to be deployed."""
    result = results.built(job)
    build = _checked(agent, build, result)
    rows = AgentVersion.objects.using(database.alias()).filter(agent=agent)
    version = rows.filter(version=result.version).first()
    if version is None and versions.numbers(result.version) is not None:
        version = AgentVersion(agent=agent, version=result.version, build=build)
    if version is None or version.build_id != build.pk:
        raise ResultMissing(f"version {result.version} belongs to another build")
    version.status, version.image_tag = VersionStatus.PUSHED, result.image_reference
    version.save(using=database.alias())
    _succeed(build, result, version)


def _checked(
    agent: Agent, build: AgentBuild | None, result: results.Deployed | results.Built
) -> AgentBuild:
    if build is None or build.pk != result.build_id:
        raise ResultMissing("the job said done, but its build's row is not there")
    if agent.deleted_at is not None:
        raise ResultMissing("the agent was deleted while it was being deployed")
    return build


def _succeed(
    build: AgentBuild,
    result: results.Deployed | results.Built,
    version: AgentVersion,
) -> None:
    if not move_build(
        build,
        BuildStatus.SUCCESS,
        image_reference=result.image_reference,
        version_tag=result.version,
        version_id=version.pk,
        completed_at=Now(),
        **NO_FAULT,
    ):
        raise ResultMissing(f"the job said done, but its build is {build.status}")


def _fail(job: BuildJob, agent: Agent, build: AgentBuild | None) -> None:
    if build is not None:
        code = progress.code_of(job, build)
        move_build(
            build,
            BuildStatus.FAILED,
            error_code=code,
            error_msg=failures.reason_of((build.logs or "").splitlines(), _said(job)),
            hint=failures.last_hint_of(code),
            completed_at=Now(),
        )
        versions.release(build)
        _end_begun(job, agent, build)
    if agent.status == AgentStatus.DEPLOYING:
        settle(agent)
        _restore_prior(job, agent)


def _forget_clear_text(job: BuildJob, build: AgentBuild | None) -> None:
    """Take the environment out of a payload of another system's: the build has it.

    There it rests as the owner's secret, for a retry, too.
    """
    payload = job.payload if isinstance(job.payload, dict) else {}
    given = payload.get("env")
    if build is None or not isinstance(given, dict) or not given:
        return
    if given.keys() <= build.secrets_env.keys():
        kept = {name: value for name, value in payload.items() if name != "env"}
        jobs = BuildJob.objects.using(database.alias())
        jobs.filter(pk=job.pk).update(payload=kept)


def _said(job: BuildJob) -> str:
    return job.error_msg or job.status


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


def _restore_prior(job: BuildJob, agent: Agent) -> None:
    """Make an agent of another system what that system says it was before.

    Ours is known by its deployments; theirs by what the payload has kept of it.
    """
    payload = job.payload if isinstance(job.payload, dict) else {}
    prior = payload.get("prior_status")
    ours = deployments(agent.pk).exclude(status=DeploymentStatus.FAILED).exists()
    if prior not in AgentStatus.values or ours or has_open_build_job(agent.pk):
        return
    values: dict[str, Any] = {"status": prior}
    for column, name in (("version", "prior_version"), ("image", "prior_image")):
        longest = getattr(Agent._meta.get_field(column), "max_length", None)
        given = payload.get(name)
        # What no row could hold must not keep the build from ending.
        if isinstance(given, str) and len(given) <= (longest or len(given)):
            values[column] = given
    _agents(agent).update(**values)


def _agents(agent: Agent) -> Any:
    return Agent.objects.using(database.alias()).filter(pk=agent.pk)
