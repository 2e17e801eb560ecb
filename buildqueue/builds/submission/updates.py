"""How does an agent get its next version? Numbered by a step, or as asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO

from ...exceptions import Refused
from ...models import Agent
from ...queue import database
from ...queue.outcomes import Actor
from .. import versions
from ..lifecycle import opening
from ..origins import origin_of
from ..payloads import Source, Spec, Update
from . import taking
from .queueing import Request, Submission, queue
from .wishes import GitRequest, git_source, wishes

STEPS = ("patch", "minor", "major")
AUTO = "auto"  # nasiko's word for a patch


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Where the new version comes from, and what opens it."""

    source: Source
    token: str | None = None  # encrypted


def submit_update(
    agent: Agent,
    *,
    caller: Actor,
    source: BinaryIO | None = None,
    git: GitRequest | None = None,
    version: str | None = None,
    changelog: str | None = None,
    spec: Spec | None = None,
    env: Mapping[str, str] | None = None,
) -> Submission:
    """Queue a new version: of the archive, of the repository, or of where it came from.

    `version` is patch (the default), minor, major, or x.y.z above the active one. What
    the spec and the environment leave out stays as it was.
    """
    if version and version not in (*STEPS, AUTO):
        versions.check(version)
    wanted = wishes(agent.owner_id, spec=spec, env=env, changelog=changelog)
    found = find(agent, source, git) or _origin(agent)
    with database.atomic():
        locked = opening.reopen_agent(agent)
        current = opening.active_version(locked)
        chosen = _version(locked, version, current)
        return queue(
            Request(
                agent=locked,
                caller=caller,
                version=chosen,
                source=found.source,
                token=found.token,
                wishes=wanted,
                payload_of=lambda build_id: Update(
                    build_id=build_id,
                    agent_id=locked.pk,
                    owner_id=caller.id or locked.owner_id,
                    agent_owner_id=locked.owner_id,
                    name=locked.name,
                    new_version=chosen,
                    prev_version=current,
                    prev_image=locked.image,
                    source=found.source,
                    spec=wanted.spec,
                ),
            )
        )


def find(agent: Agent, source: BinaryIO | None, git: GitRequest | None) -> Found | None:
    """Return the source that was sent or named; None when there is neither."""
    if source is not None and git is not None:
        raise Refused(
            "two_sources",
            "send an archive or name a repository, not both",
            fields={"source": "one of both", "git": "one of both"},
        )
    if source is not None:
        return Found(source=taking.take(source).source)
    if git is not None:
        named, token = git_source(agent.owner_id, git)
        return Found(source=named, token=token)
    return None


def _origin(agent: Agent) -> Found:
    origin = origin_of(agent.pk)
    return Found(source=origin.source, token=origin.token)


def _version(agent: Agent, wanted: str | None, current: str | None) -> str:
    if wanted in (None, AUTO, *STEPS):
        if current is None:
            return versions.next_free(agent)
        return versions.bumped(agent, current, wanted or AUTO)
    assert wanted is not None
    if current is not None:
        versions.check_newer(agent, wanted, current)
    return versions.choose(agent, wanted=wanted, stated=None)
