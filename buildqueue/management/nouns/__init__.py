"""What can `manage.py buildqueue` do about agents, connectors, secrets and watches?

Each noun has verbs, each verb asks the domain once and has one answer, told in lines to
people and as one JSON document to programs, a refusal too. A verb that queues jobs can
wait for their ends.

    options       what several verbs take
    given         what comes with a command and is no argument: archives, secrets
    naming        which agent or connector is meant; owners: whose it is
    agentoptions, agents              agents: their verbs, looking
    agentbuilds, agentacts            and acting
    connectors, vault, watching       the other nouns
    rows, showing                     how a row is told
    awaiting                          how a job has ended
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...exceptions import BuildQueueError
from ...queue.outcomes import Actor
from . import (
    agentacts,
    agentbuilds,
    agentoptions,
    agents,
    awaiting,
    connectors,
    vault,
    watching,
)
from .dotenv import BadFile
from .given import BadSource
from .showing import Answer, as_json

EXPECTED = (BadFile, BadSource, awaiting.NotDone, vault.NotRotated)
Adding = Callable[[Any], None]

# Noun -> its verbs, and what it is about.
NOUNS: dict[str, tuple[Adding, str]] = {
    "agent": (agentoptions.add, "Build, deploy, run and look at agents."),
    "connector": (connectors.add, "Build, run and look at MCP connectors."),
    "secret": (vault.add, "Keep owners' secrets, and rotate what they rest under."),
    "watch": (watching.add_watch, "Have agents follow branches and tags."),
    "proposal": (watching.add_proposal, "Decide on updates that watches have found."),
}
LOOKING: dict[str, Callable[[Mapping[str, Any]], Answer]] = {
    "list": agents.listing,
    "show": agents.show,
    "versions": agents.version_list,
    "deployments": agents.deployment_list,
    "builds": agents.build_list,
    "grants": agents.grant_list,
    "logs": agents.output,
}
ACTING: dict[str, Callable[[Mapping[str, Any], Actor], Answer]] = {
    "upload": agentbuilds.upload,
    "clone": agentbuilds.clone,
    "update": agentbuilds.update,
    "build": agentbuilds.build,
    "rollback": agentbuilds.rollback,
    "deploy": agentbuilds.rollback,  # the version is not optional there
    "delete-version": agentacts.delete_version,
    "start": agentacts.start,
    "stop": agentacts.stop,
    "restart": agentacts.restart,
    "scale": agentacts.scale,
    "delete": agentacts.delete,
    "env": agentacts.env,
    "grant": agentacts.grant,
    "revoke": agentacts.revoke,
}


def add(commands: Any) -> None:
    """Add the nouns with their verbs."""
    for noun, (add_verbs, text) in NOUNS.items():
        command: ArgumentParser = commands.add_parser(noun, help=text, description=text)
        add_verbs(command.add_subparsers(dest="verb", required=True, metavar="VERB"))


def lines(noun: str, options: Mapping[str, Any], actor: Actor) -> Iterator[str]:
    """Do what was asked, and yield what is said about it."""
    if not options["json"]:
        yield from _told(_answer(noun, options, actor), options)
        return
    try:
        document, failure = _document(_answer(noun, options, actor), options)
    except BuildQueueError as error:
        yield as_json({"status": "refused", "error": _fault(error)})
        raise
    yield as_json(document)
    if failure:
        raise failure


def _answer(noun: str, options: Mapping[str, Any], actor: Actor) -> Answer:
    verb = options["verb"]
    match noun:
        case "agent" if verb in LOOKING:
            return LOOKING[verb](options)
        case "agent":
            return ACTING[verb](options, actor)
        case "connector":
            return connectors.answer(verb, options, actor)
        case "secret":
            return vault.answer(verb, options)
        case "watch":
            return watching.answer(verb, options, actor)
    return watching.decision(verb, options, actor)


def _told(answer: Answer, options: Mapping[str, Any]) -> Iterator[str]:
    yield from answer.lines
    if options.get("wait") and answer.jobs:
        yield from awaiting.log_of(answer.jobs)
        ends = awaiting.ends_of(answer.jobs)
        if failure := awaiting.failure_of(ends):
            raise failure
        yield from map(awaiting.told, ends)
    if answer.failure:
        raise answer.failure


def _document(
    answer: Answer, options: Mapping[str, Any]
) -> tuple[Mapping[str, Any], BuildQueueError | None]:
    """Return the document, after waiting if that was asked for, and what went wrong."""
    if not (options.get("wait") and answer.jobs):
        return answer.document, answer.failure
    for _line in awaiting.log_of(answer.jobs):
        pass  # the log is for people; its end is what is waited for
    ends = awaiting.ends_of(answer.jobs)
    failure = awaiting.failure_of(ends)
    status = "failed" if failure else "done"
    return {**answer.document, "status": status, "jobs": ends}, failure


def _fault(error: BuildQueueError) -> dict[str, Any]:
    return {
        "code": getattr(error, "code", None),
        "message": str(error),
        "fields": getattr(error, "fields", {}),
    }
