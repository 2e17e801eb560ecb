"""How does an agent get back to an earlier version, or on to one that waits?"""

from __future__ import annotations

from django.db.models import Q, QuerySet

from ...exceptions import Refused
from ...models import Agent, AgentVersion
from ...queue import database
from ...queue.logs import storable
from ...queue.outcomes import Actor
from ...states import DeploymentStatus, VersionStatus
from .. import versions
from ..lifecycle import opening
from ..lifecycle.rows import deployments
from ..payloads import Rollback
from .queueing import Request, Submission, queue

MAX_REASON = 1_000


def submit_rollback(
    agent: Agent, *, caller: Actor, version: str | None = None, reason: str = ""
) -> Submission:
    """Queue the deployment of a version that is built: archived, or never deployed yet.

    Without a version the newest of those that were active before. Afterwards the one
    that is active now can be gone back to in the same way. The active one can be
    deployed again when it does not run, as after the loss of its host.
    """
    with database.atomic():
        locked = opening.reopen_agent(agent)
        target = _target(locked, version)
        return queue(
            Request(
                agent=locked,
                caller=caller,
                version=target.version,
                reserve=False,
                image=target.image_tag,
                payload_of=lambda build_id: Rollback(
                    rollback_build_id=build_id,
                    agent_id=locked.pk,
                    caller_id=caller.id or locked.owner_id,
                    agent_owner_id=locked.owner_id,
                    agent_name=locked.name,
                    target_version=target.version,
                    target_image_tag=target.image_tag,
                    reason=storable(reason)[:MAX_REASON] or None,
                ),
            )
        )


def eligible(agent: Agent) -> QuerySet[AgentVersion]:
    """Return the versions that can be deployed again, or for the first time."""
    ready = Q(can_rollback=True) | Q(status=VersionStatus.PUSHED)
    rows = AgentVersion.objects.using(database.alias()).filter(agent=agent)
    return rows.filter(ready | _idle(agent))


def _target(agent: Agent, wanted: str | None) -> AgentVersion:
    rows = AgentVersion.objects.using(database.alias()).filter(agent=agent)
    if wanted is None:
        return _newest(list(rows.filter(can_rollback=True, is_active=False)))
    found = rows.filter(version=versions.check(wanted)).first()
    if found is None:
        raise Refused(
            "version_not_found",
            f"{agent.name} has no version {wanted}",
            status=404,
            fields={"version": "not found"},
        )
    if not eligible(agent).filter(pk=found.pk).exists():
        why = "is running" if found.is_active else "cannot be deployed again"
        raise Refused(
            "version_not_eligible",
            f"version {wanted} {why}; choose one that is archived or pushed",
            fields={"version": why},
        )
    return found


def _idle(agent: Agent) -> Q:
    """Return what lets the active version be deployed again: that it does not run."""
    running = deployments(agent.pk).filter(status=DeploymentStatus.RUNNING)
    return Q(pk__in=[]) if running.exists() else Q(is_active=True)


def _newest(earlier: list[AgentVersion]) -> AgentVersion:
    if not earlier:
        raise Refused(
            "nothing_to_roll_back_to",
            "there is no earlier version that could be deployed again",
            status=409,
        )
    return max(earlier, key=lambda each: versions.numbers(each.version) or (0, 0, 0))
