"""Which jobs may a caller see, whose logs read, and whose actions decide?"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.db.models import F

from ...exceptions import Refused
from ...models import BuildJob, JobAction
from ...queue import database
from ..auth import Caller
from ..problems import refused
from . import standing
from .standing import forbidden

UNSHOWN: Final = ("payload", "trace_context")
UNSHOWN_PROGRESS: Final = tuple(
    f"progress__{name}"
    for name in ("state", "evidence", "plan", "artifacts", "answers")
)
MOST_ACTIONS: Final = 500
ACTING_ON_CONNECTORS: Final = ("change_mcpconnector", "delete_mcpconnector")


def job(caller: Caller, job_id: UUID) -> BuildJob:
    """Return a job that the caller may see."""
    jobs = BuildJob.objects.using(database.alias()).select_related("progress")
    found = (
        jobs.defer(*UNSHOWN, *UNSHOWN_PROGRESS)
        .annotate(of_agent=F("agent__owner_id"), of_connector=F("connector__owner_id"))
        .filter(pk=job_id)
    )
    one = found.first()
    if one and (_sees(caller, one) or caller.may("view_buildjob")):
        return one
    raise refused("job_not_found", f"there is no job {job_id} of yours")


def job_to_change(caller: Caller, job_id: UUID, permission: str) -> BuildJob:
    """Return a job that is the caller's, or that the permission lets them change."""
    found = job(caller, job_id)
    if _is_theirs(caller, found) or caller.may(permission):
        return found
    raise forbidden(permission)


def job_to_read_log(caller: Caller, job_id: UUID) -> BuildJob:
    """Return a job whose log the caller may read."""
    found = job(caller, job_id)
    manages = found.agent_id is not None and standing.manages(caller, found.agent_id)
    if manages or _is_theirs(caller, found) or caller.may("view_log"):
        return found
    raise forbidden("view_log")


def actions(caller: Caller, job_id: UUID) -> list[JobAction]:
    """Return what a job wants to do outside, in the order it was proposed."""
    found = job_to_change(caller, job_id, "view_jobaction")
    rows = JobAction.objects.using(database.alias()).filter(job_id=found.pk)
    ordered = list(rows.order_by("created_at", "pk")[:MOST_ACTIONS])
    if not (_is_theirs(caller, found) or caller.may("view_payload")):
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
    if not _is_theirs(caller, found):
        for permission in ("decide_jobaction", "view_jobaction", "view_payload"):
            if not caller.may(permission):
                raise forbidden(permission)
    return one


def _sees(caller: Caller, found: BuildJob) -> bool:
    """Tell whether it is the caller's, or of an agent that they manage."""
    if caller.owns(found.owner_id, *_owners(found)):
        return True
    return found.agent_id is not None and standing.manages(caller, found.agent_id)


def _is_theirs(caller: Caller, found: BuildJob) -> bool:
    """Tell whether the caller may do everything with it.

    Who asked for the job of somebody else's agent may as long as they may change what
    runs of that: a grant that was taken back takes the jobs along.
    """
    owners = _owners(found)
    if caller.owns(*owners):
        return True
    if not caller.owns(found.owner_id):
        return False
    if found.agent_id is not None:
        manages = standing.manages(caller, found.agent_id)
        return manages or any(map(caller.may, standing.ACTING))
    return not owners or any(map(caller.may, ACTING_ON_CONNECTORS))


def _owners(found: BuildJob) -> list[str]:
    targets = (getattr(found, "of_agent", None), getattr(found, "of_connector", None))
    return [owner for owner in targets if owner is not None]
