"""How is an outside effect of a job decided on? By its owner, or who may decide for others.

A decision names the hash of the content that was seen, so that nobody approves what is
another by then.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from ..models import JobAction
from ..queue import actions
from . import access, answers, bodies, rendering, schemas
from .auth import caller_of

router = Router(tags=["actions"])
DECISION_BODY = bodies.described(content_hash={"type": "string"})


@router.post(
    "/actions/{action_id}/approve",
    response=schemas.Action,
    url_name="action_approve",
    openapi_extra=DECISION_BODY,
)
def action_approve(request: HttpRequest, action_id: UUID) -> HttpResponse:
    """Let it be done; its job goes on."""
    return _decided(request, action_id, actions.approve)


@router.post(
    "/actions/{action_id}/deny",
    response=schemas.Action,
    url_name="action_deny",
    openapi_extra=DECISION_BODY,
)
def action_deny(request: HttpRequest, action_id: UUID) -> HttpResponse:
    """Have it not be done, and say why; its job goes on, and fails by it."""
    return _decided(request, action_id, actions.deny)


def _decided(
    request: HttpRequest, action_id: UUID, decide: Callable[..., JobAction]
) -> HttpResponse:
    caller = caller_of(request)
    found = access.action_to_decide(caller, action_id)
    body = bodies.read_decision(request)
    decided = decide(
        found.pk,
        content_hash=body.content_hash,
        actor=caller.actor,
        reason=body.reason,
    )
    return answers.send(request, rendering.action_of(decided))
