"""How is an agent built and deployed from a shell? One call a verb.

Everything is asked of the domain, in the name of the agent's owner; who typed it is
recorded. What is refused has changed nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, BinaryIO

from ...builds import registration
from ...builds.submission import (
    GitRequest,
    Submission,
    submit_build,
    submit_clone,
    submit_rollback,
    submit_update,
    submit_upload,
)
from ...queue import database
from ...queue.outcomes import Actor
from ..deciding import MustBeTold
from ..shown import short
from . import given, owners, rows
from .naming import find_agent
from .showing import FOLLOW, Answer

Options = Mapping[str, Any]


def upload(options: Options, actor: Actor) -> Answer:
    """Queue the build and deployment of an archive."""
    owner_id = owners.key_of(options["owner"])
    env, spec = given.environment(options), given.spec(options)
    with given.source(options["source"]) as stream:
        made = submit_upload(
            owner_id=owner_id,
            caller=actor,
            name=options["name"],
            source=stream,
            version=options["version"],
            changelog=options["changelog"],
            spec=spec,
            env=env,
        )
    return _submitted(made)


def clone(options: Options, actor: Actor) -> Answer:
    """Queue the build and deployment of a repository."""
    owner_id = owners.key_of(options["owner"])
    env, spec = given.environment(options), given.spec(options)
    git = given.git(options)
    assert git is not None, "the option is required"
    made = submit_clone(
        owner_id=owner_id,
        caller=actor,
        name=options["name"],
        git=git,
        version=options["version"],
        changelog=options["changelog"],
        spec=spec,
        env=env,
    )
    return _submitted(made)


def update(options: Options, actor: Actor) -> Answer:
    """Queue a new version."""
    agent = find_agent(options["agent"])
    env, spec = given.environment(options), given.spec(options)
    with ExitStack() as opened:
        stream, git = _source(options, opened)
        made = submit_update(
            agent,
            caller=actor,
            source=stream,
            git=git,
            version=options["version"],
            changelog=options["changelog"],
            spec=spec,
            env=env,
        )
    return _submitted(made)


def build(options: Options, actor: Actor) -> Answer:
    """Queue the build of a version that is not deployed, of an agent that may be new."""
    with ExitStack() as opened:
        stream, git = _source(options, opened)
        # A refused build leaves no agent behind that was made for it.
        opened.enter_context(database.atomic())
        if options["owner"]:
            agent = registration.register_agent(
                owner_id=owners.key_of(options["owner"]), name=options["agent"]
            )
        else:
            agent = find_agent(options["agent"])
        made = submit_build(
            agent,
            caller=actor,
            source=stream,
            git=git,
            version=options["version"],
            changelog=options["changelog"],
        )
    return _submitted(made)


def rollback(options: Options, actor: Actor) -> Answer:
    """Queue the deployment of a version that is built."""
    made = submit_rollback(
        find_agent(options["agent"]),
        caller=actor,
        version=options["version"],
        reason=options["reason"],
    )
    return _submitted(made)


def _source(
    options: Options, opened: ExitStack
) -> tuple[BinaryIO | None, GitRequest | None]:
    """Return the archive that was named, or the repository; neither: as before."""
    git = given.git(options)
    if options["source"] is None:
        return None, git
    if git is not None:
        raise MustBeTold("name a source or a repository, not both")
    return opened.enter_context(given.source(options["source"])), None


def _submitted(made: Submission) -> Answer:
    before = f" after {made.previous_version}" if made.previous_version else ""
    document = rows.asked(made.agent, "queued", [made.job]) | {
        "owner_id": made.agent.owner_id,
        "build_id": made.build.pk,
        "new_version": made.version,
        "previous_version": made.previous_version,
        "url": made.agent.url,
    }
    told = f"{made.agent.name} {made.version}{before}: job {made.job.pk} is queued"
    follow = FOLLOW.format(job=short(made.job.pk))
    return Answer(document=document, lines=[told, follow], jobs=[made.job])
