"""Which rows does a request make? A build, its reserved version, and the job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID, uuid4

from ...models import Agent, AgentBuild, BuildJob
from ...queue import database
from ...queue.enqueueing import enqueue
from ...queue.outcomes import Actor
from .. import environment, hosts, payloads, removal, secrets
from ..lifecycle import opening
from ..payloads import Payload, Source
from .wishes import NO_WISHES, Wishes, check_person

# Makes the payload of a build's id.
PayloadOf = Callable[[UUID], Payload]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What was queued."""

    job: BuildJob
    build: AgentBuild
    agent: Agent
    version: str
    previous_version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A build that is asked for, of an agent that is locked."""

    agent: Agent
    caller: Actor
    version: str
    payload_of: PayloadOf
    source: Source | None = None
    token: str | None = None  # encrypted
    wishes: Wishes = NO_WISHES
    reserve: bool = True
    image: str = ""  # of a version that was built before

    @property
    def caller_id(self) -> str:
        """Return who asks; a caller without an id asks in the owner's name."""
        return self.caller.id or self.agent.owner_id


def queue(request: Request) -> Submission:
    """Insert build, version and job in the caller's transaction."""
    agent = request.agent
    check_person("caller", request.caller_id)
    to_come = {**agent.secrets_env, **environment.env_to_come(agent)}
    secrets.check_stored({**to_come, **request.wishes.secrets_env})
    asked = opening.NewBuild(
        id=uuid4(),
        version=request.version,
        triggered_by=request.caller_id,
        source=request.source,
        token=request.token,
        secrets_env=request.wishes.secrets_env,
        changelog=request.wishes.changelog,
        image=request.image,
    )
    home = hosts.home(agent)
    job = enqueue(
        payloads.dump(request.payload_of(asked.id)),
        owner_id=request.caller_id,
        agent_id=agent.pk,
        serial_key=removal.serial_key(agent),
        requires=hosts.capability(home) if home else None,
        actor=request.caller,
    )
    build = opening.open_build(agent, asked, job, reserve=request.reserve)
    agent.refresh_from_db(using=database.alias())
    return Submission(
        job=job,
        build=build,
        agent=agent,
        version=request.version,
        previous_version=opening.active_version(agent),
    )
