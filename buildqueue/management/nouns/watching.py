"""How does a shell have agents follow branches, and decide on what was found?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...builds import proposals, watches
from ...models import BuildJob, Proposal, SourceWatch
from ...queue.outcomes import Actor
from ...states import ProposalStatus, WatchMode
from .. import typed
from ..shown import moment, short
from . import options
from .confirming import confirm
from .naming import find_agent, find_proposal, find_watch
from .showing import Answer, commit, fields, plain_url, table

WATCH = "The watch's id, or its first letters."
PROPOSAL = "The proposal's id, or its first letters."
LONGEST = 60  # characters of an address in a table


def add_watch(verbs: Any) -> None:
    """Add the verbs of watches."""
    listing = options.verb(verbs, "list", "List what is followed, the newest first.")
    listing.add_argument("agent", nargs="?", help=options.AGENT)
    options.limited(listing)
    made = options.verb(verbs, "add", "Have an agent follow a branch or a tag.")
    options.agent(made)
    made.add_argument(
        "--git", required=True, metavar="URL", help="The repository's address."
    )
    made.add_argument("--ref", required=True, help="The branch or tag to follow.")
    made.add_argument(
        "--secret", metavar="NAME", help="The owner's secret that holds the token."
    )
    made.add_argument(
        "--mode",
        choices=WatchMode.values,
        default=WatchMode.PROPOSE.value,
        help="Propose what is new (the default), or update at once.",
    )
    made.add_argument(
        "--bump",
        choices=watches.BUMPS,
        default="patch",
        help="What an update counts up (patch).",
    )
    made.add_argument(
        "--every",
        type=typed.count,
        default=10,
        metavar="MINUTES",
        help="How often it is looked at, in minutes (10).",
    )
    for name, text in {
        "pause": "Look at it no more until it is resumed.",
        "resume": "Look at it again, its failures forgotten.",
        "check": "Look at it now.",
        "remove": "Forget it, and all that it has proposed.",
    }.items():
        command = options.verb(verbs, name, text)
        command.add_argument("watch", help=WATCH)
        if name == "pause":
            options.reason(command)
        if name == "check":
            options.waiting(command)
        if name == "remove":
            options.sure(command)


def add_proposal(verbs: Any) -> None:
    """Add the verbs of proposals."""
    listing = options.verb(verbs, "list", "List proposals, the newest first.")
    listing.add_argument("agent", nargs="?", help=options.AGENT)
    listing.add_argument(
        "--status",
        choices=ProposalStatus.values,
        default=ProposalStatus.OPEN.value,
        help="Those in this status (open).",
    )
    options.limited(listing)
    accept = options.verb(verbs, "accept", "Have the proposed update done.")
    dismiss = options.verb(verbs, "dismiss", "Have it not done, nor proposed again.")
    for command in (accept, dismiss):
        command.add_argument("proposal", help=PROPOSAL)
    options.waiting(accept)


def answer(verb: str, asked: Mapping[str, Any], actor: Actor) -> Answer:
    """Return the answer of a verb of watches."""
    match verb:
        case "list":
            return _watch_list(asked)
        case "add":
            return _added(asked, actor)
    watch = find_watch(asked["watch"])
    match verb:
        case "pause":
            reason = asked["reason"]
            paused = watches.pause_watch(watch, actor=actor, reason=reason)
            return _watch_answer(paused, f"is {paused.status}")
        case "resume":
            resumed = watches.resume_watch(watch, actor=actor)
            return _watch_answer(resumed, f"is {resumed.status}")
        case "check":
            return _queued(watch, watches.check_now(watch, actor=actor), "check")
    at = f"{plain_url(watch.git_url)} {watch.ref} of {watch.agent.name}"
    confirm(f"forget the watch {at} and its proposals", asked)
    watches.remove_watch(watch, actor=actor)
    document = {"status": "done", "watch_id": watch.pk, "agent_id": watch.agent_id}
    return Answer(document=document, lines=[f"{watch.pk} is removed"])


def decision(verb: str, asked: Mapping[str, Any], actor: Actor) -> Answer:
    """Return the answer of a verb of proposals."""
    if verb == "list":
        return _proposal_list(asked)
    proposal = find_proposal(asked["proposal"])
    if verb == "accept":
        job = proposals.accept(proposal, actor=actor)
        return _queued(proposal, job, "accepted")
    dismissed = proposals.dismiss(proposal, actor=actor)
    return Answer(
        document=_proposal(dismissed), lines=[f"{dismissed.pk} is {dismissed.status}"]
    )


def _watch_list(asked: Mapping[str, Any]) -> Answer:
    found = SourceWatch.objects.select_related("agent").filter(
        agent__deleted_at__isnull=True
    )
    if asked["agent"]:
        found = found.filter(agent=find_agent(asked["agent"]))
    listed = list(found.order_by("-created_at", "-id")[: asked["limit"]])
    told = (
        (
            each.pk,
            each.agent.name,
            each.status,
            each.mode,
            commit(each.last_commit),
            moment(each.checked_at),
            each.ref,
            (plain_url(each.git_url) or "")[:LONGEST],
            each.last_error or each.pause_reason,
        )
        for each in listed
    )
    head = "id agent status mode commit looked ref url trouble"
    return Answer(
        document={"watches": [_watch(each) for each in listed]}, lines=table(head, told)
    )


def _added(asked: Mapping[str, Any], actor: Actor) -> Answer:
    made = watches.create_watch(
        find_agent(asked["agent"]),
        url=asked["git"],
        ref=asked["ref"],
        actor=actor,
        mode=asked["mode"],
        bump=asked["bump"],
        interval_minutes=asked["every"],
        secret=asked["secret"],
    )
    return _watch_answer(made, f"follows {made.ref}, every {made.interval_minutes} min")


def _watch_answer(watch: SourceWatch, told: str) -> Answer:
    return Answer(document=_watch(watch), lines=[f"{watch.pk} {told}"])


def _proposal_list(asked: Mapping[str, Any]) -> Answer:
    found = Proposal.objects.select_related("agent").filter(status=asked["status"])
    if asked["agent"]:
        found = found.filter(agent=find_agent(asked["agent"]))
    listed = list(found.order_by("-created_at", "-id")[: asked["limit"]])
    told = (
        (
            each.pk,
            each.agent.name,
            each.status,
            moment(each.created_at),
            commit(each.commit_hash),
            short(each.job_id),
            each.summary[:LONGEST],
        )
        for each in listed
    )
    return Answer(
        document={"proposals": [_proposal(each) for each in listed]},
        lines=table("id agent status found commit job summary", told),
    )


def _queued(about: SourceWatch | Proposal, job: BuildJob, word: str) -> Answer:
    name = "watch_id" if isinstance(about, SourceWatch) else "proposal_id"
    document = {
        "status": "queued",
        name: about.pk,
        "agent_id": about.agent_id,
        "agent_name": about.agent.name,
        "job_id": job.pk,
        "job_ids": [job.pk],
    }
    told = f"{about.agent.name}: {word}, job {job.pk} is queued"
    return Answer(document=document, lines=[told], jobs=[job])


def _watch(row: SourceWatch) -> dict[str, Any]:
    shown = (
        "id agent_id ref mode bump interval_minutes status pause_reason failures "
        "last_error last_commit checked_at due_at created_by created_at"
    )
    return fields(row, shown) | {
        "url": plain_url(row.git_url),
        "secret": row.secret_name,
    }


def _proposal(row: Proposal) -> dict[str, Any]:
    shown = (
        "id watch_id agent_id summary status job_id decided_by decided_at created_at"
    )
    return fields(row, shown) | {"commit": row.commit_hash}
