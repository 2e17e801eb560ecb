"""What happened to a job, in order?

Append-only: a trigger refuses every UPDATE, and every DELETE but a cascade from the
job or the one of retention. The actor is kept as words, so that no later deletion of a
user touches the table.
"""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from .documents import Document
from .expressions import ClockTimestamp
from .keys import OwnedBy


class JobEvent(models.Model):
    """One fact about a job."""

    id = models.BigAutoField(primary_key=True)
    job = OwnedBy("buildqueue.BuildJob", related_name="events", db_index=False)
    run = models.UUIDField(null=True)
    attempt = models.IntegerField(db_default=0)
    kind = models.CharField(max_length=40)
    title = models.CharField(max_length=200, db_default="")
    detail = Document(db_default=models.Value({}, models.JSONField()))
    actor = models.CharField(max_length=150, db_default="")
    actor_id = models.CharField(max_length=100, db_default="")
    reason = models.TextField(db_default="")
    created_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        default_permissions = ("view",)
        indexes = [models.Index(fields=["job", "id"], name="job_events_timeline")]

    def __str__(self) -> str:
        return f"{self.kind} {self.title}".strip()
