"""Which secrets has an owner left with us? Names to be seen, values as ciphertext.

Mirrors nasiko's `user_secrets`. Written and read by `builds/secrets` alone.
"""

from __future__ import annotations

import uuid

from django.contrib.postgres.functions import RandomUUID
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class OwnerSecret(models.Model):
    """A named secret of an owner, such as the token of a private repository."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, db_default=RandomUUID())
    owner_id = models.CharField(_("owner"), max_length=100, db_collation="C")
    name = models.CharField(max_length=128, db_collation="C")
    encrypted_value = models.TextField(help_text=_("Ciphertext, never clear text."))
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("secret")
        verbose_name_plural = _("secrets")
        constraints = [
            models.UniqueConstraint(
                name="owner_secrets_uniq", fields=["owner_id", "name"]
            ),
            models.CheckConstraint(
                name="chk_owner_secrets_name",
                condition=Q(name__regex=r"^[A-Za-z_][A-Za-z0-9_]*$"),
            ),
        ]

    def __str__(self) -> str:
        return self.name
