"""Which sources are kept in the source storage?

A row is written before the file and deleted with it, so the pruner knows every file
that anybody may still come to name. The file's name is its content's checksum.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class Source(models.Model):
    """A stored archive of source code."""

    key = models.CharField(primary_key=True, max_length=255, db_collation="C")
    sha256 = models.CharField(max_length=64)
    size = models.BigIntegerField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    used_at = models.DateTimeField(
        db_default=Now(), help_text=_("When somebody last stored or fetched it.")
    )

    class Meta:
        verbose_name = _("source")
        verbose_name_plural = _("sources")
        default_permissions = ("view",)
        constraints = [
            models.CheckConstraint(name="chk_sources_size", condition=Q(size__gte=0)),
            models.CheckConstraint(
                name="chk_sources_sha256", condition=Q(sha256__regex=r"^[0-9a-f]{64}$")
            ),
        ]
        indexes = [models.Index(fields=["used_at"], name="sources_used")]

    def __str__(self) -> str:
        return self.key
