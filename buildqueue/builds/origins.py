"""Where did an agent come from before? The repository of its newest build that has one."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from ..exceptions import Refused
from ..models import AgentBuild
from ..queue import database
from .payloads import GitSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A repository, and what opens it."""

    source: GitSource
    token: str | None = None  # encrypted, as the owner's


def origin_of(agent_id: UUID) -> Origin:
    """Return the repository, at its branch or tag as that is now; refused without one."""
    rows = AgentBuild.objects.using(database.alias())
    cloned = rows.filter(agent_id=agent_id, github_url__isnull=False)
    newest = cloned.order_by("-created_at").first()
    if newest is None:
        raise Refused(
            "source_required",
            "the agent did not come from a repository: send a source to update it with",
            fields={"source": "a zip, a tar or a repository"},
        )
    source = GitSource(
        url=newest.github_url or "",
        ref=newest.source_ref,
        secret=newest.source_secret,
    )
    return Origin(source=source, token=newest.source_token)
