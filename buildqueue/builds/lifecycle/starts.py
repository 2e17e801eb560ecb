"""What becomes of an agent when it was started again, restarted or scaled?

Done: the new deployment is the running one. Otherwise what ran still runs, and the
deployment that was begun says why it came to nothing.
"""

from __future__ import annotations

from ...exceptions import Refused, ResultMissing
from ...models import Agent, AgentBuild, BuildJob
from ...queue import database
from ...states import DeploymentStatus, JobStatus
from .. import removal, results
from ..payloads import AgentDelete
from . import switching
from .rows import deployments, lock_agent, settle


def on_final(job: BuildJob) -> None:
    """Write which deployment runs after a start."""
    agent = lock_agent(job.agent_id) if job.agent_id else None
    if agent is None:
        return
    if job.status == JobStatus.DONE:
        result = results.deployed(job)
        if agent.deleted_at is not None:
            raise ResultMissing("the agent was deleted while it was being started")
        builds = AgentBuild.objects.using(database.alias())
        build = builds.filter(pk=result.build_id, agent=agent).first()
        if build is None:
            raise ResultMissing("the build of the started version is gone")
        switching.switch(agent, build, result)
    else:
        _end_begun(job, agent)
    settle(agent)


def on_final_scale(job: BuildJob) -> None:
    """Write in how many copies the agent runs."""
    agent = lock_agent(job.agent_id) if job.agent_id else None
    wanted = job.payload.get("replicas") if isinstance(job.payload, dict) else None
    if agent is None or job.status != JobStatus.DONE or not isinstance(wanted, int):
        return
    Agent.objects.using(database.alias()).filter(pk=agent.pk).update(replicas=wanted)
    running = deployments(agent.pk).filter(status=DeploymentStatus.RUNNING)
    running.update(replicas=wanted)


def on_reopen(job: BuildJob) -> None:
    """Refuse to start or scale an agent again that was deleted."""
    agent = lock_agent(job.agent_id) if job.agent_id else None
    if agent is None or agent.deleted_at is not None:
        raise Refused("agent_deleted", "the agent was deleted", status=409)


def _end_begun(job: BuildJob, agent: Agent) -> None:
    """Fail what was begun, and have it ended: the jobs of an agent run one by one."""
    begun = deployments(agent.pk).filter(status=DeploymentStatus.STARTING)
    if agent.deleted_at is not None:
        removal.request(agent, AgentDelete(agent_id=agent.pk))
    else:
        removal.request_end(agent, begun)
    begun.update(
        status=DeploymentStatus.FAILED, crash_reason=job.error_msg or job.status
    )
