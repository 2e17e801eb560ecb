"""Who asks? A bearer token, or else Django's session with its CSRF check.

A request that brings a bearer token is judged by it alone: a bad one is never saved by
a session beside it, so no page of another site can ride on the cookie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from ninja.security import HttpBearer
from ninja.security.base import AuthBase

from .. import tokens
from ..queue.outcomes import Actor
from . import receiving
from .problems import refused

MAX_LABEL = 150  # of the timeline's actor


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The user behind a request."""

    user: AbstractUser

    @property
    def key(self) -> str:
        """The owner key: what `owner_id` columns hold."""
        return str(self.user.pk)

    @property
    def actor(self) -> Actor:
        """The caller as the timeline tells it."""
        return Actor(label=self.user.get_username()[:MAX_LABEL], id=self.key)

    def owns(self, *owners: str | None) -> bool:
        """Tell whether one of these owner keys is the caller's."""
        return self.key in owners

    def may(self, permission: str) -> bool:
        """Tell whether the caller holds a permission of the app."""
        return self.user.has_perm(f"buildqueue.{permission}")


def caller_of(request: HttpRequest) -> Caller:
    """Return the caller that authentication found."""
    return cast("Caller", request.auth)  # type: ignore[attr-defined]  # set by ninja


class BearerToken(HttpBearer):
    """`Authorization: Bearer bq_…`."""

    def authenticate(self, request: HttpRequest, token: str) -> Caller:
        """Return the token's user; a token that is not usable ends the request."""
        found = tokens.find(token.strip())
        if found is None:
            raise refused(
                "invalid_token",
                "the token is unknown, revoked or expired, or its user is not active; "
                "make a new one",
            )
        tokens.touch(found)
        return Caller(user=found.user)


class Session(AuthBase):
    """Django's session; every method that changes something needs the CSRF token."""

    openapi_type = "apiKey"
    openapi_in = "cookie"

    def __init__(self) -> None:
        self.openapi_name = settings.SESSION_COOKIE_NAME
        super().__init__()

    def __call__(self, request: HttpRequest) -> Caller | None:
        """Return the logged-in user, or None when there is none."""
        user = getattr(request, "user", None)
        if user is None or not user.is_authenticated or not user.is_active:
            return None
        # The check looks into the form: its size is limited before.
        receiving.receive(request)
        if reason := _csrf_fault(request):
            raise refused(
                "csrf_failed",
                f"{reason} Send the cookie's token as X-CSRFToken, or use a bearer token.",
            )
        return Caller(user=user)


class _CsrfCheck(CsrfViewMiddleware):
    """Django's check, answering with the reason instead of a page."""

    def _reject(self, request: HttpRequest, reason: str) -> str:
        return reason


def _unreachable(request: HttpRequest) -> HttpResponse:
    raise AssertionError("the check never passes a request on")


def _csrf_fault(request: HttpRequest) -> str | None:
    check: Any = _CsrfCheck(_unreachable)
    check.process_request(request)
    return cast("str | None", check.process_view(request, _unreachable, (), {}))
