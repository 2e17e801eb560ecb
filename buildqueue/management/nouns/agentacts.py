"""How is an agent run, changed and opened from a shell? One call a verb.

Everything is asked of the domain, in the name of the agent's owner; who typed it is
recorded. What is refused has changed nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...builds import grants, retirement, running, settings_of, versions
from ...models import Agent, BuildJob
from ...queue.outcomes import Actor
from ...states import GrantType
from ..deciding import MustBeTold
from . import given, owners, rows
from .confirming import confirm
from .naming import find_agent
from .showing import Answer

Options = Mapping[str, Any]


def start(options: Options, actor: Actor) -> Answer:
    """Queue the start of an agent."""
    agent = find_agent(options["agent"])
    job = running.start_agent(agent, actor=actor, reason=options["reason"])
    return _queued(agent, [job], "start")


def restart(options: Options, actor: Actor) -> Answer:
    """Queue the replacement of the running instance."""
    agent = find_agent(options["agent"])
    job = running.restart_agent(agent, actor=actor, reason=options["reason"])
    return _queued(agent, [job], "restart")


def scale(options: Options, actor: Actor) -> Answer:
    """Queue the change of the number of copies, or note it for the next start."""
    agent = find_agent(options["agent"])
    job = running.scale_agent(
        agent, options["replicas"], actor=actor, reason=options["reason"]
    )
    word = f"{options['replicas']} copies"
    if job is None:
        told = f"{agent.name}: {word} from the next start on"
        return Answer(document=rows.asked(agent, "done", []), lines=[told])
    return _queued(agent, [job], word)


def stop(options: Options, actor: Actor) -> Answer:
    """Queue the end of the processes."""
    agent = find_agent(options["agent"])
    jobs = retirement.stop_agent(agent, actor=actor, reason=options["reason"])
    return _queued(agent, jobs, "stop")


def delete(options: Options, actor: Actor) -> Answer:
    """Delete the agent, when that is meant, and queue the end of its processes."""
    agent = find_agent(options["agent"])
    whose = f"{agent.owner_id}/{agent.name} ({agent.pk})"
    confirm(f"delete agent {whose} and end its processes", options)
    jobs = retirement.delete_agent(agent, actor=actor, reason=options["reason"])
    return _queued(agent, jobs, "deleted")


def delete_version(options: Options, actor: Actor) -> Answer:
    """Forget a version, when that is meant."""
    agent, version = find_agent(options["agent"]), options["version"]
    confirm(f"delete version {version} of {agent.owner_id}/{agent.name}", options)
    versions.delete_version(agent, version)
    document = rows.asked(agent, "done", []) | {"deleted_version": version}
    return Answer(document=document, lines=[f"{agent.name}: {version} is deleted"])


def env(options: Options, actor: Actor) -> Answer:
    """Return the names of the variables, after changing what was given."""
    agent, fresh = find_agent(options["agent"]), given.environment(options)
    removed = options["remove"] or []
    if both := sorted(set(fresh) & set(removed)):
        raise MustBeTold(f"both set and removed: {', '.join(both)}")
    names = sorted(agent.secrets_env)
    note = []
    if fresh or removed:
        wanted = {**fresh, **dict.fromkeys(removed)}
        names = settings_of.set_env(agent, wanted, actor=actor)
        note = ["changed: a restart of the agent takes it over"]
    document = {"agent_id": agent.pk, "agent_name": agent.name, "env": names}
    return Answer(document=document, lines=[*names, *note])


def grant(options: Options, actor: Actor) -> Answer:
    """Open the agent to a user or everybody."""
    agent, manage = find_agent(options["agent"]), options["manage"]
    if options["everybody"] and manage:
        raise MustBeTold("everybody may look and never manage: leave --manage out")
    if options["everybody"]:
        made = grants.open_to_everybody(agent, actor=actor)
    else:
        key = owners.key_of(options["user"])
        made = grants.open_to_user(agent, key, can_manage=manage, actor=actor)
    document = rows.asked(agent, "done", []) | {
        "type": made.grant_type,
        "grantee_id": made.grantee_id,
        "can_manage": made.can_manage,
    }
    may = "manage it" if made.can_manage else "look at it"
    whom = "everybody" if options["everybody"] else made.grantee_id
    return Answer(document=document, lines=[f"{agent.name}: {whom} may {may}"])


def revoke(options: Options, actor: Actor) -> Answer:
    """Take a grant back."""
    agent = find_agent(options["agent"])
    kind, key = GrantType.PUBLIC, grants.EVERYBODY
    if not options["everybody"]:
        kind, key = GrantType.USER, owners.likely_key(options["user"])
    revoked = grants.close(agent, kind, key, actor=actor)
    told = "is taken back" if revoked else "was not there"
    document = rows.asked(agent, "done", []) | {"grantee_id": key, "revoked": revoked}
    return Answer(document=document, lines=[f"{agent.name}: the grant {told}"])


def _queued(agent: Agent, jobs: Sequence[BuildJob], word: str) -> Answer:
    document = rows.asked(agent, "queued" if jobs else "done", jobs)
    told = [f"{agent.name}: {word}, job {job.pk} is queued" for job in jobs]
    nothing = [f"{agent.name}: {word}; no process of it runs"]
    return Answer(document=document, lines=told or nothing, jobs=jobs)
