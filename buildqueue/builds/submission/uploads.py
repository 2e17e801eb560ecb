"""How does a source become an agent of that name? Sent along, or from a repository."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import BinaryIO

from ...queue import database
from ...queue.outcomes import Actor
from .. import versions
from ..lifecycle import opening
from ..payloads import GithubClone, Spec, Upload
from . import taking
from .queueing import Request, Submission, queue
from .wishes import GitRequest, check_name, git_source, wishes


def submit_upload(
    *,
    owner_id: str,
    caller: Actor,
    name: str,
    source: BinaryIO,
    version: str | None = None,
    ports: Sequence[int] | None = None,
    changelog: str | None = None,
    spec: Spec | None = None,
    env: Mapping[str, str] | None = None,
) -> Submission:
    """Queue the build and deployment of a zip or tar.

    `owner_id` owns the agent, `caller` asks and is recorded. The agent is the owner's
    live one of that name, or a new one; what the spec leaves out stays as it was.
    """
    check_name(name)
    if version is not None:
        versions.check(version)
    wanted = wishes(owner_id, spec=spec, ports=ports, env=env, changelog=changelog)
    taken = taking.take(source)
    with database.atomic():
        agent = opening.open_agent(owner_id, name)
        chosen = versions.choose(agent, wanted=version, stated=taken.stated)
        return queue(
            Request(
                agent=agent,
                caller=caller,
                version=chosen,
                source=taken.source,
                wishes=wanted,
                payload_of=lambda build_id: Upload(
                    build_id=build_id,
                    agent_id=agent.pk,
                    owner_id=caller.id or owner_id,
                    agent_owner_id=owner_id,
                    name=name,
                    agent_version=chosen,
                    source=taken.source,
                    spec=wanted.spec,
                ),
            )
        )


def submit_clone(
    *,
    owner_id: str,
    caller: Actor,
    name: str,
    git: GitRequest,
    version: str | None = None,
    changelog: str | None = None,
    spec: Spec | None = None,
    env: Mapping[str, str] | None = None,
) -> Submission:
    """Queue fetching, build and deployment of a repository.

    Without a version the next free one is reserved; the source's own takes its place
    when it turns out to be free.
    """
    check_name(name)
    if version is not None:
        versions.check(version)
    wanted = wishes(owner_id, spec=spec, env=env, changelog=changelog)
    source, token = git_source(owner_id, git)
    with database.atomic():
        agent = opening.open_agent(owner_id, name)
        chosen = versions.choose(agent, wanted=version, stated=None)
        return queue(
            Request(
                agent=agent,
                caller=caller,
                version=chosen,
                source=source,
                token=token,
                wishes=wanted,
                payload_of=lambda build_id: GithubClone(
                    build_id=build_id,
                    agent_id=agent.pk,
                    owner_id=caller.id or owner_id,
                    agent_owner_id=owner_id,
                    name=name,
                    agent_version=chosen,
                    version_override=version,
                    source=source,
                    spec=wanted.spec,
                ),
            )
        )
