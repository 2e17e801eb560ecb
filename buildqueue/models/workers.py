"""Which worker processes are there, and what do they serve?

A new row at each start. `server_started_at` is the start of the database server under
which the worker took its session lock: after a restart or failover nobody's lock is
there, so an observer who sees another start time may conclude nothing from it.
"""

from __future__ import annotations

import uuid

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..states import WorkerStatus
from .expressions import ClockTimestamp


class Worker(models.Model):
    """One `runworker` process."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    host = models.CharField(max_length=255)
    pid = models.IntegerField()
    kind = models.CharField(
        max_length=20,
        db_default="standalone",
        choices=[("standalone", _("standalone")), ("embedded", _("embedded"))],
    )
    queues = models.JSONField(default=list, help_text=_("Empty: all queues."))
    capabilities = models.JSONField(default=list)
    slots = models.IntegerField()
    busy = models.IntegerField(db_default=0)
    version = models.CharField(max_length=50)
    status = models.CharField(
        max_length=20,
        choices=WorkerStatus.choices,
        db_default=WorkerStatus.RUNNING.value,
    )
    direct = models.BooleanField(
        db_default=False, help_text=_("Has a connection of its own, past any pooler.")
    )
    server_started_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(db_default=ClockTimestamp())
    heartbeat_at = models.DateTimeField(db_default=ClockTimestamp())
    stopped_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        default_permissions = ("view",)
        constraints = [
            models.CheckConstraint(
                name="chk_workers_status",
                condition=models.Q(status__in=WorkerStatus.values),
            ),
            models.CheckConstraint(
                name="chk_workers_slots",
                condition=models.Q(slots__gte=1, busy__gte=0),
            ),
        ]
        indexes = [
            models.Index(
                fields=["heartbeat_at"],
                name="workers_alive",
                condition=models.Q(status__in=["running", "draining"]),
            )
        ]

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"
