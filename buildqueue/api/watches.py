"""Which branches and tags does an agent follow, and what was proposed because of them?"""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from ..builds import proposals, watches
from ..models import Proposal, SourceWatch
from ..queue import database
from . import access, answers, asked, bodies, paging, reading, rendering, schemas
from .auth import caller_of
from .jobs import REASON_BODY

router = Router(tags=["watches"])
ProposalStatus = Literal["open", "accepted", "dismissed", "superseded"]


@router.get(
    "/agents/{agent_id}/watches", response=schemas.Watches, url_name="agent_watches"
)
def agent_watches(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Return what the agent follows, oldest first."""
    caller = caller_of(request)
    found = access.agent_to_change(caller, agent_id, "view_sourcewatch")
    rows = SourceWatch.objects.using(database.alias()).filter(agent=found)
    shown = [rendering.watch_of(row) for row in rows.order_by("created_at", "pk")]
    return answers.send(request, schemas.Watches(watches=shown))


@router.post(
    "/agents/{agent_id}/watches",
    response={201: schemas.Watch},
    url_name="agent_watches",
    openapi_extra=asked.told(asked.Watch),
)
def watch_create(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Have the agent follow a branch or tag; it is looked at soon."""
    caller = caller_of(request)
    found = access.agent_to_change(caller, agent_id, "add_sourcewatch")
    body = reading.read(request, asked.Watch)
    if body.secret is not None:
        access.check_secrets(caller, found)
    made = watches.create_watch(
        found,
        url=body.url,
        ref=body.ref,
        actor=caller.actor,
        mode=body.mode,
        bump=body.bump,
        interval_minutes=body.interval_minutes,
        secret=body.secret,
    )
    return answers.send(request, rendering.watch_of(made), status=201)


@router.post(
    "/watches/{watch_id}/pause",
    response=schemas.Watch,
    url_name="watch_pause",
    openapi_extra=REASON_BODY,
)
def watch_pause(request: HttpRequest, watch_id: UUID) -> HttpResponse:
    """Look at it no more until somebody resumes it."""
    caller = caller_of(request)
    found = access.watch_to_change(caller, watch_id, "change_sourcewatch")
    reason = bodies.read_reason(request)
    paused = watches.pause_watch(found, actor=caller.actor, reason=reason)
    return answers.send(request, rendering.watch_of(paused))


@router.post(
    "/watches/{watch_id}/resume",
    response=schemas.Watch,
    url_name="watch_resume",
    openapi_extra=REASON_BODY,
)
def watch_resume(request: HttpRequest, watch_id: UUID) -> HttpResponse:
    """Look at it again, its failures forgotten."""
    caller = caller_of(request)
    found = access.watch_to_change(caller, watch_id, "change_sourcewatch")
    reason = bodies.read_reason(request)
    resumed = watches.resume_watch(found, actor=caller.actor, reason=reason)
    return answers.send(request, rendering.watch_of(resumed))


@router.post(
    "/watches/{watch_id}/check",
    response={202: schemas.QueuedCheck},
    url_name="watch_check",
    openapi_extra=REASON_BODY,
)
def watch_check(request: HttpRequest, watch_id: UUID) -> HttpResponse:
    """Queue a look at it now."""
    caller = caller_of(request)
    found = access.watch_to_change(caller, watch_id, "change_sourcewatch")
    reason = bodies.read_reason(request)
    job = watches.check_now(found, actor=caller.actor, reason=reason)
    body = schemas.QueuedCheck(
        job_id=job.pk,
        watch_id=found.pk,
        agent_id=found.agent_id,
        links=rendering.job_links(job.pk, None, found.agent_id),
    )
    return answers.send_queued(request, body)


@router.delete("/watches/{watch_id}", response={204: None}, url_name="watch")
def watch_remove(
    request: HttpRequest, watch_id: UUID, reason: str = ""
) -> HttpResponse:
    """Follow it no more; what it has proposed is forgotten."""
    caller = caller_of(request)
    found = access.watch_to_change(caller, watch_id, "delete_sourcewatch")
    why = bodies.checked_reason(reason)
    watches.remove_watch(found, actor=caller.actor, reason=why)
    return answers.send_nothing()


@router.get(
    "/agents/{agent_id}/proposals",
    response=schemas.Proposals,
    url_name="agent_proposals",
)
def agent_proposals(
    request: HttpRequest,
    agent_id: UUID,
    status: ProposalStatus | None = None,
    after: UUID | None = None,
    limit: paging.PageSize = 50,
) -> HttpResponse:
    """Return the updates that were proposed for the agent, newest first."""
    caller = caller_of(request)
    found = access.agent_to_change(caller, agent_id, "view_proposal")
    known = Proposal.objects.using(database.alias()).filter(agent=found)
    seen = known if status is None else known.filter(status=status)
    page = paging.page_of(seen, after=after, limit=limit, known=known)
    shown = [rendering.proposal_of(row) for row in page.rows]
    return answers.send(request, schemas.Proposals(proposals=shown, next=page.next))


@router.post(
    "/proposals/{proposal_id}/accept",
    response={202: schemas.Job},
    url_name="proposal_accept",
)
def proposal_accept(request: HttpRequest, proposal_id: UUID) -> HttpResponse:
    """Queue the update that is proposed; asked again, it is the same job."""
    caller = caller_of(request)
    found = access.proposal_to_decide(caller, proposal_id)
    reading.read(request, asked.Nothing)
    job = proposals.accept(found, actor=caller.actor)
    return answers.send_job(request, job, status=202)


@router.post(
    "/proposals/{proposal_id}/dismiss",
    response=schemas.ProposalOut,
    url_name="proposal_dismiss",
)
def proposal_dismiss(request: HttpRequest, proposal_id: UUID) -> HttpResponse:
    """Close a proposal; its commit is not proposed again."""
    caller = caller_of(request)
    found = access.proposal_to_decide(caller, proposal_id)
    reading.read(request, asked.Nothing)
    closed = proposals.dismiss(found, actor=caller.actor)
    return answers.send(request, rendering.proposal_of(closed))
