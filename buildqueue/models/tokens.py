"""Who may call the API without a browser session?

A token is shown once, at its making; only its SHA-256 is stored. Random tokens of 256
bits need no slow hash.
"""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    """Questions about tokens."""

    def usable(self) -> ApiTokenQuerySet:
        """Tokens that are neither revoked nor expired, of users that may log in."""
        return self.filter(
            models.Q(expires_at__isnull=True) | models.Q(expires_at__gt=Now()),
            revoked_at__isnull=True,
            user__is_active=True,
        )


class ApiToken(models.Model):
    """A bearer token of one user."""

    id = models.BigAutoField(primary_key=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="buildqueue_tokens"
    )
    name = models.CharField(max_length=100, help_text=_("What it is used for."))
    prefix = models.CharField(
        max_length=16, editable=False, help_text=_("Its first letters, to tell it by.")
    )
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)

    objects: ClassVar[models.Manager[ApiToken]] = ApiTokenQuerySet.as_manager()

    class Meta:
        verbose_name = _("API token")
        verbose_name_plural = _("API tokens")

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"
