"""How is a bearer token made, and found again?

The secret is returned once and never stored: the table keeps its SHA-256 and its first
letters. `bq_` in front lets secret scanners tell what they found.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from django.contrib.auth.base_user import AbstractBaseUser
from django.db.models import Q
from django.db.models.functions import Now

from . import clock
from .models import ApiToken
from .models.tokens import ApiTokenQuerySet

PREFIX: Final = "bq_"
SHOWN: Final = 8
TOUCHED_EVERY: Final = timedelta(minutes=1)


def make(
    user: AbstractBaseUser, name: str, expires: datetime | None = None
) -> tuple[ApiToken, str]:
    """Store a new token of the user; return it with its secret, shown this once."""
    secret = PREFIX + secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        user_id=user.pk,
        name=name,
        prefix=secret[:SHOWN],
        digest=_digest(secret),
        expires_at=expires,
    )
    return token, secret


def find(secret: str) -> ApiToken | None:
    """Return the usable token with this secret, its user beside it."""
    if not secret.startswith(PREFIX):
        return None
    usable = ApiTokenQuerySet(ApiToken).usable()
    return usable.select_related("user").filter(digest=_digest(secret)).first()


def touch(token: ApiToken) -> None:
    """Note that the token was used; at most one write a minute, so polls stay reads."""
    last = token.last_used_at
    if last and clock.now() - last < TOUCHED_EVERY:
        return
    # Of several requests at once, one writes.
    stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=Now() - TOUCHED_EVERY)
    ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=Now())


def revoke(token: ApiToken) -> None:
    """End the token for good; the next request with it is refused."""
    ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(
        revoked_at=Now()
    )


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
