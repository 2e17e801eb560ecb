"""Where did an agent come from before? The repository of its newest good build."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from ..exceptions import Refused
from ..models import AgentBuild
from ..queue import database
from ..states import BuildStatus
from .payloads import GitSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A repository, and what opens it."""

    source: GitSource
    token: str | None = None  # encrypted, as the owner's


def _first_of(agent_id: UUID) -> AgentBuild | None:
    """Return the first build of an agent that never came to be, if it was a clone."""
    rows = AgentBuild.objects.using(database.alias()).filter(agent_id=agent_id)
    if rows.filter(status=BuildStatus.SUCCESS).exists():
        return None
    return rows.filter(github_url__isnull=False).order_by("-created_at").first()


def origin_of(agent_id: UUID) -> Origin:
    """Return the repository, at its branch or tag as that is now; refused without one."""
    rows = AgentBuild.objects.using(database.alias())
    cloned = rows.filter(agent_id=agent_id, github_url__isnull=False)
    good = cloned.filter(status=BuildStatus.SUCCESS)
    newest = good.order_by("-created_at").first() or _first_of(agent_id)
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
