"""How is a version built without being deployed? The agent stays as it is meanwhile."""

from __future__ import annotations

from typing import BinaryIO

from ...exceptions import Refused
from ...models import Agent
from ...queue import database
from ...queue.outcomes import Actor
from .. import versions
from ..lifecycle import opening
from ..payloads import StandaloneBuild
from . import taking
from .queueing import Request, Submission, queue
from .updates import Found, find
from .wishes import GitRequest, wishes


def submit_build(
    agent: Agent,
    *,
    caller: Actor,
    source: BinaryIO | None = None,
    git: GitRequest | None = None,
    version: str | None = None,
    changelog: str | None = None,
) -> Submission:
    """Queue the build of an archive or a repository; its version waits to be deployed."""
    if version is not None:
        versions.check(version)
    wanted = wishes(agent.owner_id, changelog=changelog)
    found, stated = _found(agent, source, git)
    with database.atomic():
        locked = opening.reopen_agent(agent, deploying=False)
        chosen = versions.choose(locked, wanted=version, stated=stated)
        return queue(
            Request(
                agent=locked,
                caller=caller,
                version=chosen,
                source=found.source,
                token=found.token,
                wishes=wanted,
                payload_of=lambda build_id: StandaloneBuild(
                    build_id=build_id,
                    agent_id=locked.pk,
                    agent_name=locked.name,
                    version_tag=chosen,
                    version_override=version,
                    source=found.source,
                ),
            )
        )


def _found(
    agent: Agent, source: BinaryIO | None, git: GitRequest | None
) -> tuple[Found, str | None]:
    if source is not None and git is None:
        taken = taking.take(source)
        return Found(source=taken.source), taken.stated
    if found := find(agent, source, git):
        return found, None
    raise Refused(
        "source_required",
        "send an archive or name a repository to build",
        fields={"source": "a zip, a tar or a repository"},
    )
