"""What do the chaos test's jobs leave in the database? A row an effect.

There is no unique constraint on purpose: an effect that happens twice must be seen.
"""

from __future__ import annotations

from django.db import models

from buildqueue.models.expressions import ClockTimestamp


class Entry(models.Model):
    """One effect of a job, by the lease under which it was written."""

    job = models.UUIDField()
    effect = models.CharField(max_length=100)
    lease = models.UUIDField()
    attempt = models.IntegerField()
    written_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        app_label = "chaos"
        db_table = "chaos_ledger"

    def __str__(self) -> str:
        return f"{self.effect} by attempt {self.attempt} of {self.job}"
