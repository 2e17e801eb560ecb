"""How is an agent stopped or deleted? By a job, on the host that runs it.

Both can be asked for again at any time. A deletion is a mark on the row: from its
commit on nothing new can be asked for, open jobs are cancelled in the same transaction,
and the name is free again; the processes follow as soon as the host's worker gets to it.
"""

from __future__ import annotations

from django.db.models.functions import Now

from ..exceptions import Refused
from ..models import Agent, BuildJob
from ..queue import database, verbs
from ..queue.outcomes import Actor
from . import removal
from .lifecycle import rows, stops
from .payloads import AgentDelete, AgentStart, AgentStop

DELETE = AgentDelete.model_fields["kind"].default
START = AgentStart.model_fields["kind"].default


def stop_agent(agent: Agent, *, actor: Actor, reason: str = "") -> list[BuildJob]:
    """Ask for the agent's processes to be ended; return the jobs that do it.

    They wait for a build of the agent that is under way. None when nothing runs;
    refused when nothing runs yet.
    """
    with database.atomic():
        found = rows.lock_agent(agent.pk)
        if found is None or found.deleted_at is not None:
            raise Refused("agent_deleted", "the agent was deleted", status=409)
        jobs = removal.request(
            found, AgentStop(agent_id=agent.pk), actor=actor, reason=reason
        )
        stops.write_off_gone_hosts(found)
        if not jobs and _will_run(agent):
            raise Refused(
                "agent_deploying",
                "nothing of the agent runs yet, and a build or a start is under way: "
                "cancel it, or stop the agent afterwards",
                status=409,
            )
        return jobs


def delete_agent(agent: Agent, *, actor: Actor, reason: str = "") -> list[BuildJob]:
    """Delete the agent, cancel what is open for it, and have its processes ended.

    Returns the jobs that end them; none when the agent never got to a host.
    """
    with database.atomic():
        # Jobs before the agent, as everywhere: a job that is just ending comes first.
        _lock_open_jobs(agent)
        found = rows.lock_agent(agent.pk)
        if found is None:
            return []
        if found.deleted_at is None:
            agents = Agent.objects.using(database.alias()).filter(pk=agent.pk)
            agents.update(deleted_at=Now())
            found.refresh_from_db(using=database.alias())
        # Before the open jobs: with them goes what is known of where they began.
        jobs = removal.request(
            found, AgentDelete(agent_id=agent.pk), actor=actor, reason=reason
        )
        for job in _lock_open_jobs(agent):
            verbs.cancel(job.pk, actor=actor, reason=reason or "the agent was deleted")
        stops.write_off_gone_hosts(found)
        return jobs


def _will_run(agent: Agent) -> bool:
    jobs = BuildJob.objects.using(database.alias()).filter(agent_id=agent.pk)
    starts = jobs.filter(kind=START, completed_at__isnull=True)
    return rows.has_open_build_job(agent.pk) or starts.exists()


def _lock_open_jobs(agent: Agent) -> list[BuildJob]:
    jobs = BuildJob.objects.using(database.alias()).filter(agent_id=agent.pk)
    ending = jobs.filter(completed_at__isnull=True).exclude(kind=DELETE)
    return list(ending.select_for_update(no_key=True).order_by("pk"))
