"""Who outside wants to be told what, and may it be so?

The type of the setting `NOTICES`: each destination has a name, the events it wants, and
either a webhook with its secret or addresses for e-mail. A faulty one is told by the
system checks with its place in the setting. Neither the secret nor the webhook's address,
whose path is a secret at some receivers, shows in a repr, a fault or a log.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _
from pydantic import AfterValidator, ConfigDict, StringConstraints

EVERY = "*"
PREFIX = "whsec_"
KEY_BYTES = range(24, 65)  # as Standard Webhooks wants it


class NoticeEvent(TextChoices):
    """What is told to the outside."""

    JOB_DONE = "job.done", _("job done")
    JOB_FAILED = "job.failed", _("job failed")
    JOB_CANCELLED = "job.cancelled", _("job cancelled")
    INPUT_ASKED = "input.asked", _("job asks for input")
    APPROVAL_ASKED = "approval.asked", _("job asks for approval")
    OUTCOME_UNKNOWN = "action.outcome_unknown", _("outcome of an action unknown")


def key_of(secret: str) -> bytes:
    """Return the key that a webhook's secret stands for; ValueError when it is none."""
    text = secret.removeprefix(PREFIX)
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) not in KEY_BYTES:
        raise ValueError(f"must be {PREFIX} and 24 to 64 random bytes in base64")
    return key


def _event(name: str) -> str:
    known = [EVERY, *NoticeEvent.values]
    if name not in known:
        raise ValueError(f"unknown event {name!r}; known: {', '.join(known)}")
    return name


def _address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an address that begins with https:// or http://")
    if parts.username or parts.password:
        raise ValueError("must hold no user and password: the signature is the proof")
    if not url.isascii() or not url.isprintable() or " " in url or parts.port == 0:
        raise ValueError("must be written in ASCII without spaces, as it is sent")
    return url


def _secret(secret: str) -> str:
    key_of(secret)
    return secret


def _mailbox(address: str) -> str:
    try:
        validate_email(address)
    except ValidationError:
        raise ValueError("is no e-mail address") from None
    return address


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """One place that is told of some events."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    events: tuple[Annotated[str, AfterValidator(_event)], ...]
    webhook: Annotated[str, AfterValidator(_address)] | None = field(
        default=None, repr=False
    )
    secret: Annotated[str, AfterValidator(_secret)] | None = field(
        default=None, repr=False
    )
    email: tuple[Annotated[str, AfterValidator(_mailbox)], ...] = ()

    def __post_init__(self) -> None:
        """Refuse a destination that could be told nothing, or in two ways."""
        if not self.events:
            raise ValueError(f"name its events, or ['{EVERY}'] for all")
        if bool(self.webhook) == bool(self.email):
            raise ValueError("give it either 'webhook' with 'secret', or 'email'")
        if bool(self.webhook) != bool(self.secret):
            raise ValueError("'webhook' and 'secret' go together")

    def wants(self, event: str) -> bool:
        """Tell whether it is to be told of an event."""
        return event in self.events or EVERY in self.events


def _distinct(all_of_them: tuple[Destination, ...]) -> tuple[Destination, ...]:
    names = [each.name for each in all_of_them]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two destinations are named {name!r}")
    return all_of_them


Destinations: TypeAlias = Annotated[tuple[Destination, ...], AfterValidator(_distinct)]
