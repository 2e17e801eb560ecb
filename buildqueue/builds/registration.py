"""How does an agent come to be without being deployed? By a name, for builds to come."""

from __future__ import annotations

from ..exceptions import Refused
from ..models import Agent
from ..queue import database
from .submission.wishes import check_name, check_person


def register_agent(*, owner_id: str, name: str) -> Agent:
    """Return the owner's live agent of that name; made, and registered only, if new."""
    check_person("owner", owner_id)
    check_name(name)
    agents = Agent.objects.using(database.alias())
    made = Agent(owner_id=owner_id, name=name)
    agents.bulk_create([made], ignore_conflicts=True)
    found = agents.filter(owner_id=owner_id, name=name, deleted_at=None).first()
    if found is None:
        raise Refused(
            "agent_deleted", f"{name} is being deleted just now; try again", status=409
        )
    return found
