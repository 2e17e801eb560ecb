"""How is an agent started, restarted or scaled? By a job, on the host it has.

Asked for again, the job that waits is the answer, unless something else was asked for
after it; one that has begun is none, since it may not know what has changed meanwhile.
"""

from __future__ import annotations

from ..exceptions import Refused
from ..models import Agent, AgentVersion, BuildJob
from ..queue import database
from ..queue.enqueueing import enqueue
from ..queue.outcomes import Actor
from ..states import UNCLAIMED, DeploymentStatus
from . import hosts, payloads, removal
from .lifecycle import rows
from .payloads import AgentScale, AgentStart
from .payloads.parts import MOST_REPLICAS

ANSWERS = (DeploymentStatus.RUNNING,)


def start_agent(agent: Agent, *, actor: Actor, reason: str = "") -> BuildJob:
    """Ask for a stopped or crashed agent to run again; refused while one runs."""
    with database.atomic():
        found = _locked(agent)
        if rows.deployments(found.pk).filter(status__in=ANSWERS).exists():
            raise Refused(
                "already_running",
                "the agent is running; restart it to have it take over its settings",
                status=409,
            )
        return _start(found, actor, reason)


def restart_agent(agent: Agent, *, actor: Actor, reason: str = "") -> BuildJob:
    """Ask for a new instance of the active version, beside the one that runs.

    It takes over the environment and limits of now; when it fails the old one goes on.
    """
    with database.atomic():
        return _start(_locked(agent), actor, reason)


def scale_agent(
    agent: Agent, replicas: int, *, actor: Actor, reason: str = ""
) -> BuildJob | None:
    """Ask for so many copies; None when nothing runs: then the next start has them."""
    if not 1 <= replicas <= MOST_REPLICAS:
        rule = f"must be from 1 to {MOST_REPLICAS}; to have none, stop the agent"
        raise Refused(
            "invalid_parameter", f"replicas {rule}", fields={"replicas": rule}
        )
    with database.atomic():
        found = _locked(agent)
        if not rows.deployments(found.pk).filter(status__in=ANSWERS).exists():
            agents = Agent.objects.using(database.alias()).filter(pk=found.pk)
            agents.update(replicas=replicas)
            return None
        return _enqueue(
            found, AgentScale(agent_id=found.pk, replicas=replicas), actor, reason
        )


def _start(agent: Agent, actor: Actor, reason: str) -> BuildJob:
    versions = AgentVersion.objects.using(database.alias())
    if not versions.filter(agent=agent, is_active=True).exists():
        raise Refused(
            "nothing_to_start",
            "the agent has no active version: upload or deploy one first",
            status=409,
        )
    return _enqueue(agent, AgentStart(agent_id=agent.pk), actor, reason)


def _enqueue(
    agent: Agent, payload: AgentStart | AgentScale, actor: Actor, reason: str
) -> BuildJob:
    for waiting in removal.asked_last(agent, payload):
        if waiting.status in UNCLAIMED and waiting.attempt == 0:
            return waiting
    home = hosts.home(agent)
    job = enqueue(
        payloads.dump(payload),
        owner_id=actor.id or agent.owner_id,
        agent_id=agent.pk,
        serial_key=removal.serial_key(agent),
        requires=hosts.capability(home) if home else None,
        actor=actor,
    )
    removal.note(job, reason)
    return job


def _locked(agent: Agent) -> Agent:
    found = rows.lock_agent(agent.pk)
    if found is None or found.deleted_at is not None:
        raise Refused("agent_deleted", "the agent was deleted", status=409)
    return found
