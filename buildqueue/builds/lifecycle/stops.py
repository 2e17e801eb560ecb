"""What becomes of an agent when its processes were ended on a host?

Its deployments there are stopped, and so is the agent unless it runs elsewhere. When
the job failed or was cancelled nothing is known, and nothing is changed.
"""

from __future__ import annotations

from ...exceptions import Refused
from ...models import Agent, BuildJob
from ...states import DeploymentStatus, JobStatus
from .. import hosts
from .rows import deployments, lock_agent, settle


def on_final(job: BuildJob) -> None:
    """Write what the runtime of the job's host has done."""
    agent = lock_agent(job.agent_id) if job.agent_id else None
    if agent is None or job.status != JobStatus.DONE:
        return
    for host in hosts.with_processes(agent):
        if job.requires == hosts.capability(host):
            _end_on(agent, host)
    settle(agent)


def on_reopen_stop(job: BuildJob) -> None:
    """Refuse to stop an agent again that was deleted."""
    agent = lock_agent(job.agent_id) if job.agent_id else None
    if agent is None or agent.deleted_at is not None:
        raise Refused("agent_deleted", "the agent was deleted", status=409)


def write_off_gone_hosts(agent: Agent) -> None:
    """Count as stopped what ran on hosts that are gone; the agent must be locked."""
    gone = [host for host in hosts.with_processes(agent) if hosts.is_gone(host)]
    for host in gone:
        _end_on(agent, host)
    if gone:
        settle(agent)


def _end_on(agent: Agent, host: str) -> None:
    here = deployments(agent.pk).filter(host=host, status__in=hosts.ALIVE)
    here.update(status=DeploymentStatus.STOPPED)
