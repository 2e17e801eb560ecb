"""What do the test kinds leave behind? A row an effect, written in plain commits."""

from __future__ import annotations

from django.db import models


class Effect(models.Model):
    """One effect of a job, to be counted."""

    label = models.CharField(max_length=100, db_index=True)
    attempt = models.IntegerField(default=0)

    class Meta:
        app_label = "host"

    def __str__(self) -> str:
        return f"{self.label} by attempt {self.attempt}"
