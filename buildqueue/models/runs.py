"""What is stored of each attempt?

One row an attempt, its id the lease's. A run stays open until its process is known
dead, also when a person's verb took the lease away: keys and caps count open runs.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from ..states import ErrorClass, RunOutcome
from .expressions import ClockTimestamp
from .keys import OwnedBy


class JobRun(models.Model):
    """One attempt of a job."""

    id = models.UUIDField(primary_key=True, help_text=_("The lease's id."))
    job = OwnedBy("buildqueue.BuildJob", related_name="runs")
    attempt = models.IntegerField()
    worker = models.UUIDField(db_index=True)
    slot = models.UUIDField()
    pid = models.IntegerField(null=True)
    owner_id = models.CharField(max_length=100, db_default="", db_collation="C")
    serial_key = models.CharField(max_length=200, null=True, db_collation="C")
    started_at = models.DateTimeField(db_default=ClockTimestamp())
    ended_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(
        null=True,
        help_text=_("When a run without a lease counts as dead at the latest."),
    )
    outcome = models.CharField(max_length=20, choices=RunOutcome.choices, null=True)
    exit_code = models.IntegerField(null=True)
    exit_signal = models.IntegerField(null=True)
    error_class = models.CharField(max_length=20, choices=ErrorClass.choices, null=True)
    error_code = models.CharField(max_length=100, null=True)
    error_msg = models.TextField(null=True)
    traceback = models.TextField(null=True)
    peak_memory_bytes = models.BigIntegerField(null=True)
    cpu_seconds = models.FloatField(null=True)

    class Meta:
        verbose_name = _("run")
        verbose_name_plural = _("runs")
        default_permissions = ("view",)
        constraints = [
            models.CheckConstraint(
                name="chk_job_runs_outcome",
                condition=Q(outcome__isnull=True) | Q(outcome__in=RunOutcome.values),
            ),
            models.CheckConstraint(
                name="chk_job_runs_ended",
                condition=Q(ended_at__isnull=True, outcome__isnull=True)
                | Q(ended_at__isnull=False, outcome__isnull=False),
            ),
            models.CheckConstraint(
                name="chk_job_runs_attempt", condition=Q(attempt__gte=1)
            ),
            models.UniqueConstraint(
                name="job_runs_one_open_per_key",
                fields=["serial_key"],
                condition=Q(serial_key__isnull=False, ended_at__isnull=True),
            ),
            models.UniqueConstraint(
                name="job_runs_one_open_per_job",
                fields=["job"],
                condition=Q(ended_at__isnull=True),
            ),
        ]
        indexes = [
            models.Index(
                fields=["slot"],
                name="job_runs_open",
                condition=Q(ended_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"attempt {self.attempt} of {str(self.job_id)[:8]}"
