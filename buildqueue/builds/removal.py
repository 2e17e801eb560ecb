"""Which jobs end an agent's processes? One for each host that may have some, or one
for the instance that a cancelled build left behind.

Asked for again while one is open, the open one is the answer. Their serial key is the
agent's, so they wait until the process of a cancelled build is dead.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..exceptions import DuplicateJob
from ..models import Agent, AgentDeployment, BuildJob
from ..queue import database, transitions
from ..queue.enqueueing import enqueue
from ..queue.outcomes import Actor
from ..states import EventKind
from . import hosts
from .payloads import AgentDelete, AgentStop, InstanceEnd

REMOVAL_ATTEMPTS = 10


def serial_key(agent: Agent) -> str:
    """Return the key under which all jobs of an agent run one after the other."""
    return f"agent:{agent.pk}"


def request(
    agent: Agent,
    payload: AgentStop | AgentDelete,
    *,
    actor: Actor | None = None,
    reason: str = "",
) -> list[BuildJob]:
    """Ask every host that may run the agent to do what the payload says."""
    asked = [host for host in hosts.with_processes(agent) if not hosts.is_gone(host)]
    return [_ask(agent, payload, host, actor, reason) for host in asked]


def request_end(agent: Agent, begun: Iterable[AgentDeployment]) -> None:
    """Ask for the instances to be ended that an ended job may have left running."""
    for deployment in begun:
        if deployment.host and not hosts.is_gone(deployment.host):
            payload = InstanceEnd(agent_id=agent.pk, instance_id=deployment.pk)
            _ask(agent, payload, deployment.host, None, "")


def _ask(
    agent: Agent,
    payload: AgentStop | AgentDelete | InstanceEnd,
    host: str,
    actor: Actor | None,
    reason: str,
) -> BuildJob:
    subject = payload.instance_id if isinstance(payload, InstanceEnd) else agent.pk
    try:
        job = enqueue(
            payload,
            owner_id=(actor.id if actor else "") or agent.owner_id,
            agent_id=agent.pk,
            serial_key=serial_key(agent),
            dedupe_key=f"{payload.kind}:{subject}:{host}",
            requires=hosts.capability(host),
            max_attempts=REMOVAL_ATTEMPTS,
            actor=actor,
        )
    except DuplicateJob as duplicate:
        if duplicate.job_id is None:
            raise  # it ended this moment
        return BuildJob.objects.using(database.alias()).get(pk=duplicate.job_id)
    if reason:
        transitions.record(job, EventKind.NOTE, title=reason[:200])
    return job
