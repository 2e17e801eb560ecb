"""Which connectors, watches and proposals may a caller see and change?

They are their owner's; who else may is said by permissions alone.
"""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet

from ...models import McpConnector, Proposal, SourceWatch
from ...queue import database
from ..auth import Caller
from ..problems import refused
from .standing import forbidden


def connectors(caller: Caller) -> QuerySet[McpConnector]:
    """Return the connectors that the caller may see, deleted ones too."""
    rows = McpConnector.objects.using(database.alias())
    if caller.may("view_mcpconnector"):
        return rows.all()
    return rows.filter(owner_id=caller.key)


def connector(caller: Caller, connector_id: UUID) -> McpConnector:
    """Return a connector that the caller may see."""
    live = connectors(caller).filter(pk=connector_id, deleted_at__isnull=True)
    if one := live.first():
        return one
    raise refused(
        "connector_not_found", f"there is no connector {connector_id} of yours"
    )


def connector_to_change(
    caller: Caller, connector_id: UUID, permission: str
) -> McpConnector:
    """Return a connector that is the caller's, or that the permission lets change."""
    found = connector(caller, connector_id)
    if caller.owns(found.owner_id) or caller.may(permission):
        return found
    raise forbidden(permission)


def watch_to_change(caller: Caller, watch_id: UUID, permission: str) -> SourceWatch:
    """Return a watch of the caller's agent, or one that the permission lets change."""
    rows = SourceWatch.objects.using(database.alias()).select_related("agent")
    one = rows.filter(pk=watch_id, agent__deleted_at__isnull=True).first()
    if one and caller.owns(one.agent.owner_id):
        return one
    if one is None or not caller.may("view_sourcewatch"):
        raise refused("watch_not_found", f"there is no watch {watch_id} of yours")
    if caller.may(permission):
        return one
    raise forbidden(permission)


def proposal_to_decide(caller: Caller, proposal_id: UUID) -> Proposal:
    """Return a proposal that the caller may accept or dismiss."""
    rows = Proposal.objects.using(database.alias()).select_related("agent")
    one = rows.filter(pk=proposal_id, agent__deleted_at__isnull=True).first()
    if one and caller.owns(one.agent.owner_id):
        return one
    if one is None or not caller.may("view_proposal"):
        raise refused(
            "proposal_not_found", f"there is no proposal {proposal_id} of yours"
        )
    if caller.may("decide_proposal"):
        return one
    raise forbidden("decide_proposal")
