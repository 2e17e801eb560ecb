"""What did a job's process print?

Chunks of text in the order (attempt, seq); `seq` counts from 1 within a run, so a
reader resumes at `attempt.seq` without a gap or a repeat. No foreign key: writing a log
never waits for the job's row, and retention deletes by itself.
"""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from .expressions import ClockTimestamp

MAX_CHUNK_BYTES = 64 * 1024


class LogChunk(models.Model):
    """A piece of one run's output."""

    class Stream(models.TextChoices):
        """Where the text was written."""

        STDOUT = "stdout", "stdout"
        STDERR = "stderr", "stderr"
        SYSTEM = "system", _("system")  # told by the worker, not by the job

    id = models.BigAutoField(primary_key=True)
    job_id = models.UUIDField()
    run_id = models.UUIDField()
    attempt = models.IntegerField()
    seq = models.IntegerField()
    stream = models.CharField(max_length=10, choices=Stream.choices)
    step = models.CharField(
        max_length=200, null=True, blank=True, help_text=_("The step that printed it.")
    )
    text = models.TextField()
    created_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        verbose_name = _("log chunk")
        verbose_name_plural = _("log chunks")
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(name="log_chunks_once", fields=["run_id", "seq"]),
            models.CheckConstraint(
                name="chk_log_chunks_stream",
                condition=models.Q(stream__in=["stdout", "stderr", "system"]),
            ),
            models.CheckConstraint(
                name="chk_log_chunks_seq", condition=models.Q(seq__gte=1)
            ),
        ]
        indexes = [
            models.Index(fields=["job_id", "attempt", "seq"], name="log_chunks_read")
        ]

    def __str__(self) -> str:
        return f"{self.attempt}.{self.seq}"
