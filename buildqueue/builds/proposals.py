"""What becomes of an update that a watch has proposed? A person accepts it, once.

An acceptance is one transaction: the row is locked, the update is submitted, and its
job stands on the row. If the process dies before the commit, the proposal is still open;
after it there is exactly one job. Who accepts again gets that job. What something else
has marked as accepted gets its job from a duty, in the same way. Callers check whether
the actor may decide.
"""

from __future__ import annotations

import logging
from uuid import UUID, uuid5

from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from ..exceptions import Refused
from ..models import AgentBuild, BuildJob, Proposal, SourceWatch
from ..queue import database
from ..queue.outcomes import Actor
from ..states import ProposalStatus
from . import submission

logger = logging.getLogger(__name__)

REPAIRS = 500  # at one look
SHOWN_COMMIT = 12  # characters
MOST_LABEL = 200


def submit(watch: SourceWatch, commit: str, *, caller: Actor) -> BuildJob:
    """Ask for the agent's update to a commit that the watch has found; return the job."""
    git = submission.GitRequest(
        url=watch.git_url, ref=watch.ref, commit=commit, secret=watch.secret_name
    )
    return submission.submit_update(
        agent=watch.agent,
        caller=caller,
        git=git,
        version=watch.bump,
        changelog=_at(watch, commit),
    ).job


def propose(watch: SourceWatch, commit: str) -> Proposal:
    """Propose an update to the commit, unless a person has dismissed this very one.

    Joins the caller's transaction, in which the watch is locked. One that was superseded
    or accepted before is open again: the branch has come back to it.
    """
    proposal_id = uuid5(watch.pk, commit)
    rows = _proposals().filter(pk=proposal_id)
    found = rows.select_for_update(no_key=True).first()
    if found is None:
        made = Proposal(
            id=proposal_id,
            watch=watch,
            agent_id=watch.agent_id,
            commit_hash=commit,
            summary=f"{_at(watch, commit)} of {watch.git_url}",
        )
        made.save(using=database.alias(), force_insert=True)
    elif found.status != ProposalStatus.DISMISSED:
        rows.update(
            status=ProposalStatus.OPEN, job=None, decided_by=None, decided_at=None
        )
    return rows.get()


def supersede(watch: SourceWatch, commit: str) -> int:
    """Close what the watch has proposed before it found this commit."""
    older = _proposals().filter(watch=watch, status=ProposalStatus.OPEN)
    return older.exclude(commit_hash=commit).update(
        status=ProposalStatus.SUPERSEDED, decided_by="watch", decided_at=Now()
    )


def accept(proposal: Proposal, *, actor: Actor) -> BuildJob:
    """Queue the proposed update and return its job: the same one, however often.

    Refused when it was dismissed or superseded, and when the update cannot be taken:
    then the proposal stays open.
    """
    with database.atomic():
        found = _lock(proposal.pk)
        if found.status == ProposalStatus.ACCEPTED:
            return _accepted_before(found, actor)
        if found.status != ProposalStatus.OPEN:
            raise _decided(found)
        # Before the build is made, so that the build is not the older one.
        _decide(found, ProposalStatus.ACCEPTED, actor)
        return _submit(found, actor)


def dismiss(proposal: Proposal, *, actor: Actor) -> Proposal:
    """Close the proposal without an update; its commit is not proposed again."""
    with database.atomic():
        found = _lock(proposal.pk)
        if found.status == ProposalStatus.OPEN:
            _decide(found, ProposalStatus.DISMISSED, actor)
        elif found.status != ProposalStatus.DISMISSED:
            raise _decided(found)
        return _proposals().get(pk=found.pk)


def repair_accepted() -> int:
    """Queue the updates of accepted proposals that have none; return how many.

    Each in its own transaction; what is refused is told, and tried at the next look.
    """
    live = _undone().filter(agent__deleted_at__isnull=True)
    waiting = live.order_by("decided_at", "pk").values_list("pk", flat=True)
    return sum(_repair(proposal_id) for proposal_id in waiting[:REPAIRS])


def _repair(proposal_id: UUID) -> bool:
    try:
        with database.atomic():
            rows = _undone().filter(pk=proposal_id).select_related("watch__agent")
            locked = rows.select_for_update(no_key=True, skip_locked=True, of=("self",))
            found = locked.first()
            if found is None:
                return False  # somebody else has done it, or does
            _submit(found, Actor(label=found.decided_by or "system"))
    except Refused as refused:
        logger.warning(
            "accepted proposal not queued",
            extra={"proposal": str(proposal_id), "reason": str(refused)},
        )
        return False
    return True


def _undone() -> QuerySet[Proposal]:
    """Return the accepted proposals whose update was never asked for.

    A job that is too old to be kept leaves its build, which tells that it was.
    """
    asked = AgentBuild.objects.using(database.alias()).filter(
        agent_id=OuterRef("agent_id"),
        commit_hash=OuterRef("commit_hash"),
        created_at__gte=OuterRef("decided_at"),
    )
    accepted = _proposals().filter(status=ProposalStatus.ACCEPTED, job__isnull=True)
    return accepted.filter(~Exists(asked))


def _accepted_before(found: Proposal, actor: Actor) -> BuildJob:
    if found.job_id is not None:
        return BuildJob.objects.using(database.alias()).get(pk=found.job_id)
    if _undone().filter(pk=found.pk).exists():
        return _submit(found, actor)
    raise Refused(
        "already_decided",
        "the proposal was accepted and its job is no longer kept; see the agent's builds",
        status=409,
    )


def _submit(found: Proposal, actor: Actor) -> BuildJob:
    job = submit(found.watch, found.commit_hash, caller=actor)
    _proposals().filter(pk=found.pk).update(job=job)
    return job


def _decide(found: Proposal, status: ProposalStatus, actor: Actor) -> None:
    _proposals().filter(pk=found.pk).update(
        status=status, decided_by=actor.label[:MOST_LABEL], decided_at=Now()
    )


def _lock(proposal_id: UUID) -> Proposal:
    rows = _proposals().select_related("watch__agent").filter(pk=proposal_id)
    found = rows.select_for_update(no_key=True, of=("self",)).first()
    if found is None:
        raise Refused(
            "not_found", "the proposal is gone with its watch or agent", status=404
        )
    return found


def _decided(found: Proposal) -> Refused:
    return Refused(
        "already_decided",
        f"the proposal is {found.status}; look for the newest one",
        status=409,
        extra={"status": found.status},
    )


def _proposals() -> QuerySet[Proposal]:
    return Proposal.objects.using(database.alias())


def _at(watch: SourceWatch, commit: str) -> str:
    return f"{watch.ref} at {commit[:SHOWN_COMMIT]}"
