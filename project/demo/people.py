"""Who can log in? An operator and an owner, with passwords made at the first start.

The passwords are kept in a file that only the account running the demo can read, so
that the next start prints the same ones.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser
from django.utils import timezone

from buildqueue import tokens
from buildqueue.models import ApiToken

TOKEN_NAME = "make demo"  # noqa: S105 - a name, no secret
TOKEN_LASTS = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class People:
    """Names and passwords, and a token of the owner for this run."""

    operator_password: str
    owner_password: str
    owner_token: str


def ensure_people(data_dir: Path) -> People:
    """Make the users, or find them, and return what they log in with."""
    passwords = _passwords(data_dir / "demo-passwords.json")
    _ensure("operator", passwords["operator"], staff=True)
    owner = _ensure("owner", passwords["owner"], staff=False)
    for earlier in ApiToken.objects.filter(
        user_id=owner.pk, name=TOKEN_NAME, revoked_at=None
    ):
        tokens.revoke(earlier)
    _token, secret = tokens.make(owner, TOKEN_NAME, timezone.now() + TOKEN_LASTS)
    return People(passwords["operator"], passwords["owner"], secret)


def _passwords(path: Path) -> dict[str, str]:
    if path.exists():
        found: dict[str, str] = json.loads(path.read_text())
        return found
    made = {name: secrets.token_urlsafe(9) for name in ("operator", "owner")}
    path.touch(mode=0o600)
    path.write_text(json.dumps(made))
    return made


def _ensure(name: str, password: str, *, staff: bool) -> AbstractUser:
    users = get_user_model().objects
    user, _made = users.get_or_create(
        username=name, defaults={"is_staff": staff, "is_superuser": staff}
    )
    if not user.check_password(password):
        user.set_password(password)
        user.save(update_fields=["password"])
    return user
