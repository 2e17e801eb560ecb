"""To whom is an agent opened, and by whom? By its owner alone."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from ninja import Router

from ..builds import grants
from ..models import Agent
from ..queue.logs import storable
from ..states import GrantType
from . import access, answers, asked, reading, rendering, schemas
from .auth import caller_of
from .problems import refused

router = Router(tags=["agents"])


@router.get(
    "/agents/{agent_id}/grants", response=schemas.Grants, url_name="agent_grants"
)
def agent_grants(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Return to whom the agent is opened."""
    return _told(request, access.own_agent(caller_of(request), agent_id))


@router.put(
    "/agents/{agent_id}/grants",
    response=schemas.Grants,
    url_name="agent_grants",
    openapi_extra=asked.told(asked.Grant),
)
def agent_grant(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Open the agent to a user or to everybody, or change how far it is."""
    caller = caller_of(request)
    found = access.own_agent(caller, agent_id)
    body = reading.read(request, asked.Grant)
    if body.public:
        grants.open_to_everybody(found, actor=caller.actor)
    else:
        user = _user(body.user, body.user_id)
        grants.open_to_user(
            found, str(user.pk), can_manage=body.can_manage, actor=caller.actor
        )
    return _told(request, found)


@router.delete(
    "/agents/{agent_id}/grants", response={204: None}, url_name="agent_grants"
)
def agent_grant_remove(
    request: HttpRequest,
    agent_id: UUID,
    user: str | None = None,
    user_id: str | None = None,
    public: bool = False,
) -> HttpResponse:
    """Close the agent to a user or to everybody."""
    caller = caller_of(request)
    found = access.own_agent(caller, agent_id)
    asked.check_one(user, user_id, public=public)
    kind = GrantType.PUBLIC if public else GrantType.USER
    key = grants.EVERYBODY if public else _key(user, user_id)
    if not grants.close(found, kind, key, actor=caller.actor):
        raise refused("grant_not_found", "the agent is not opened to them")
    return answers.send_nothing()


def _told(request: HttpRequest, agent: Agent) -> HttpResponse:
    rows = grants.grants_of(agent)
    keys = [row.grantee_id for row in rows if row.grant_type == GrantType.USER]
    users = get_user_model()._default_manager.filter(pk__in=keys) if keys else ()
    names = {str(user.pk): user.get_username() for user in users}
    return answers.send(request, rendering.grants_of(rows, names))


def _key(name: str | None, key: str | None) -> str:
    # A user who is gone has a key still.
    return storable(key) if key is not None else str(_user(name, None).pk)


def _user(name: str | None, key: str | None) -> AbstractUser:
    model = get_user_model()
    wanted = {"pk": key}
    if key is None:
        wanted = {model.USERNAME_FIELD: model.normalize_username(storable(name or ""))}
    try:
        found = model._default_manager.filter(**wanted).first()
    except (ValueError, ValidationError):
        found = None  # no key of this host's users looks like that
    if found is None or not found.is_active:
        raise refused(
            "user_not_found", "there is no such user; ask them for their name"
        )
    return found
