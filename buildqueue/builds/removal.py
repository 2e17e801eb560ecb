"""Which jobs end an agent's processes? One for each host that may have some, or one
for the instance that a cancelled build left behind.

Asked for again while one is open, the open one is the answer; a stop only if nothing
was asked of the agent after it. Their serial key is the agent's, so they wait until the
process of a cancelled build is dead.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..exceptions import DuplicateJob
from ..models import Agent, AgentDeployment, BuildJob
from ..queue import database, logs, transitions
from ..queue.enqueueing import enqueue
from ..queue.outcomes import Actor
from ..states import EventKind
from . import hosts, payloads
from .payloads import AgentDelete, AgentStop, InstanceEnd, Payload

REMOVAL_ATTEMPTS = 10
INSTANCE_END = InstanceEnd.model_fields["kind"].default


def serial_key(agent: Agent) -> str:
    """Return the key under which all jobs of an agent run one after the other."""
    return f"agent:{agent.pk}"


def asked_last(agent: Agent, payload: Payload) -> list[BuildJob]:
    """Return the open jobs of this payload after which nothing else was asked for.

    The jobs of an agent run in the order they were asked for, so an older one with
    something else behind it is no answer to who asks again. The agent must be locked.
    """
    jobs = BuildJob.objects.using(database.alias())
    mine = jobs.filter(serial_key=serial_key(agent), completed_at__isnull=True)
    wanted, found = payloads.dump(payload), list[BuildJob]()
    for job in mine.exclude(kind=INSTANCE_END).order_by("-seq"):
        if job.payload != wanted:
            break
        found.append(job)
    return found


def note(job: BuildJob, reason: str) -> None:
    """Keep why the job was asked for."""
    if reason:
        transitions.record(job, EventKind.NOTE, title=logs.storable(reason[:200]))


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
    key: str | None = f"{payload.kind}:{subject}:{host}"
    if isinstance(payload, AgentStop):
        key = None
        for job in asked_last(agent, payload):
            if job.requires == hosts.capability(host):
                return job
    try:
        job = enqueue(
            payloads.dump(payload),
            owner_id=(actor.id if actor else "") or agent.owner_id,
            agent_id=agent.pk,
            serial_key=serial_key(agent),
            dedupe_key=key,
            requires=hosts.capability(host),
            max_attempts=REMOVAL_ATTEMPTS,
            actor=actor,
        )
    except DuplicateJob as duplicate:
        if duplicate.job_id is None:
            raise  # it ended this moment
        return BuildJob.objects.using(database.alias()).get(pk=duplicate.job_id)
    note(job, reason)
    return job
