"""What may a caller see and do? Owners their own; others what permissions say.

An object of somebody else does not exist for who may not see it: the same 404 as for an
id that was never given. Who sees it but may not change it is told so (403).
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.db.models import F

from ..exceptions import Refused
from ..models import Agent, AgentBuild, BuildJob, JobAction
from ..models.agents import AgentQuerySet
from ..queue import database
from .auth import Caller
from .problems import refused

UNSHOWN: Final = ("payload", "trace_context")
UNSHOWN_PROGRESS: Final = tuple(
    f"progress__{name}"
    for name in ("state", "evidence", "plan", "artifacts", "answers")
)
MOST_ACTIONS: Final = 500


def job(caller: Caller, job_id: UUID) -> BuildJob:
    """Return a job that the caller may see."""
    jobs = BuildJob.objects.using(database.alias()).select_related("progress")
    found = (
        jobs.defer(*UNSHOWN, *UNSHOWN_PROGRESS)
        .annotate(of_agent=F("agent__owner_id"), of_connector=F("connector__owner_id"))
        .filter(pk=job_id)
    )
    one = found.first()
    if one and (_owns_job(caller, one) or caller.may("view_buildjob")):
        return one
    raise refused("job_not_found", f"there is no job {job_id} of yours")


def job_to_change(caller: Caller, job_id: UUID, permission: str) -> BuildJob:
    """Return a job that is the caller's, or that the permission lets them change."""
    found = job(caller, job_id)
    if _owns_job(caller, found) or caller.may(permission):
        return found
    raise _forbidden(permission)


def job_to_read_log(caller: Caller, job_id: UUID) -> BuildJob:
    """Return a job whose log the caller may read."""
    return job_to_change(caller, job_id, "view_log")


def actions(caller: Caller, job_id: UUID) -> list[JobAction]:
    """Return what a job wants to do outside, in the order it was proposed."""
    found = job_to_change(caller, job_id, "view_jobaction")
    rows = JobAction.objects.using(database.alias()).filter(job_id=found.pk)
    ordered = list(rows.order_by("created_at", "pk")[:MOST_ACTIONS])
    if not (_owns_job(caller, found) or caller.may("view_payload")):
        for row in ordered:
            row.content, row.receipt = None, None
    return ordered


def action_to_decide(caller: Caller, action_id: UUID) -> JobAction:
    """Return an action of the caller's job, or one that permissions let them decide.

    Who decides for others must be able to see the content: nobody lets happen what
    they cannot read.
    """
    rows = JobAction.objects.using(database.alias())
    one = rows.filter(pk=action_id).first()
    try:
        found = job(caller, one.job_id) if one else None
    except Refused:
        found = None
    if one is None or found is None:
        raise refused("action_not_found", f"there is no action {action_id} of yours")
    if not _owns_job(caller, found):
        for permission in ("decide_jobaction", "view_jobaction", "view_payload"):
            if not caller.may(permission):
                raise _forbidden(permission)
    return one


def build(caller: Caller, build_id: UUID) -> AgentBuild:
    """Return a build that the caller may see, with its agent."""
    builds = AgentBuild.objects.using(database.alias())
    one = builds.select_related("agent").filter(pk=build_id).first()
    if one and (caller.owns(one.agent.owner_id) or caller.may("view_agentbuild")):
        return one
    raise refused("build_not_found", f"there is no build {build_id} of yours")


def build_to_read_log(caller: Caller, build_id: UUID) -> AgentBuild:
    """Return a build whose log the caller may read."""
    found = build(caller, build_id)
    if caller.owns(found.agent.owner_id) or caller.may("view_log"):
        return found
    raise _forbidden("view_log")


def agents(caller: Caller) -> AgentQuerySet:
    """Return the agents that the caller may see, deleted ones too."""
    every = AgentQuerySet(Agent, using=database.alias())
    return every if caller.may("view_agent") else every.for_owner(caller.key)


def agent(caller: Caller, agent_id: UUID) -> Agent:
    """Return an agent that the caller may see."""
    live = AgentQuerySet(Agent, using=database.alias()).live()
    one = live.filter(pk=agent_id).first()
    if one and (caller.owns(one.owner_id) or caller.may("view_agent")):
        return one
    raise refused("agent_not_found", f"there is no agent {agent_id} of yours")


def agent_to_change(caller: Caller, agent_id: UUID, permission: str) -> Agent:
    """Return an agent that is the caller's, or that the permission lets them change."""
    found = agent(caller, agent_id)
    if caller.owns(found.owner_id) or caller.may(permission):
        return found
    raise _forbidden(permission)


def _owns_job(caller: Caller, found: BuildJob) -> bool:
    of_target = (getattr(found, "of_agent", None), getattr(found, "of_connector", None))
    return caller.owns(found.owner_id, *of_target)


def _forbidden(permission: str) -> Exception:
    return refused("forbidden", f"this needs the permission buildqueue.{permission}")
