"""What is to be told to the outside, and to whom?

A row for each notice and destination, written in the transaction of what it tells, sent
by a duty afterwards. Its key makes it one whoever writes it again; its id goes with every
try, so that a receiver knows a repeated one.
"""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from ..states import NoticeStatus
from .documents import Document
from .expressions import ClockTimestamp


class Notice(models.Model):
    """One notice for one destination."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    key = models.CharField(max_length=300, db_collation="C")
    destination = models.CharField(max_length=100, db_collation="C")
    event = models.CharField(max_length=60)
    job_id = models.UUIDField(_("job"), null=True)
    body = Document()
    status = models.CharField(
        max_length=20,
        choices=NoticeStatus.choices,
        db_default=NoticeStatus.PENDING.value,
    )
    tries = models.IntegerField(db_default=0)
    due_at = models.DateTimeField(db_default=ClockTimestamp())
    created_at = models.DateTimeField(db_default=ClockTimestamp())
    sent_at = models.DateTimeField(null=True)
    error_msg = models.TextField(db_default="")

    class Meta:
        verbose_name = _("notice")
        verbose_name_plural = _("notices")
        default_permissions = ("view", "change")
        constraints = [
            models.CheckConstraint(
                name="chk_notices_status", condition=Q(status__in=NoticeStatus.values)
            ),
            models.CheckConstraint(
                name="chk_notices_sent",
                condition=Q(status=NoticeStatus.SENT, sent_at__isnull=False)
                | (~Q(status=NoticeStatus.SENT) & Q(sent_at__isnull=True)),
            ),
            models.UniqueConstraint(name="notices_once", fields=["key", "destination"]),
        ]
        indexes = [
            models.Index(
                fields=["due_at"],
                name="notices_due",
                condition=Q(status=NoticeStatus.PENDING),
            ),
            models.Index(
                fields=["created_at"],
                name="notices_old",
                condition=~Q(status=NoticeStatus.PENDING),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event} to {self.destination}"
