"""How do a watch and its proposals become answers? A secret by its name alone."""

from __future__ import annotations

from ...models import Proposal, SourceWatch
from ...states import ProposalStatus, WatchStatus
from .. import schemas
from .common import address, plain_url


def watch_of(row: SourceWatch) -> schemas.Watch:
    """Return a watch's answer."""
    active = row.status == WatchStatus.ACTIVE
    verbs = ("pause", "check") if active else ("resume",)
    return schemas.Watch(
        id=row.pk,
        agent_id=row.agent_id,
        url=plain_url(row.git_url) or "",
        ref=row.ref,
        secret=row.secret_name,
        mode=row.mode,
        bump=row.bump,
        interval_minutes=row.interval_minutes,
        status=row.status,
        pause_reason=row.pause_reason,
        failures=row.failures,
        last_error=row.last_error,
        last_commit=row.last_commit,
        checked_at=row.checked_at,
        due_at=row.due_at,
        created_by=row.created_by,
        created_at=row.created_at,
        links={"agent": address("agent", row.agent_id)}
        | {verb: address(f"watch_{verb}", row.pk) for verb in verbs},
    )


def proposal_of(row: Proposal) -> schemas.ProposalOut:
    """Return a proposal's answer."""
    links = {"agent": address("agent", row.agent_id)}
    if row.job_id:
        links["job"] = address("job", row.job_id)
    if row.status == ProposalStatus.OPEN:
        for verb in ("accept", "dismiss"):
            links[verb] = address(f"proposal_{verb}", row.pk)
    return schemas.ProposalOut(
        id=row.pk,
        watch_id=row.watch_id,
        agent_id=row.agent_id,
        commit=row.commit_hash,
        summary=row.summary,
        status=row.status,
        job_id=row.job_id,
        decided_by=row.decided_by,
        decided_at=row.decided_at,
        created_at=row.created_at,
        links=links,
    )
