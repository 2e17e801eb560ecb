"""What has a job done so far, and what does it remember between its attempts?

Rows of their own, so that nothing in a handler's transaction ever locks the job's row.
`lease_id` is the writer's lease, None for anyone but a run: a deferred trigger refuses the
commit of a row whose lease is no longer the job's, and with it all that the transaction
did. So an effect on the same database and its checkpoint are one.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from .documents import Document
from .expressions import ClockTimestamp
from .keys import OneOf, OwnedBy

EMPTY_OBJECT = models.Value({}, models.JSONField())
EMPTY_LIST = models.Value([], models.JSONField())


class Checkpoint(models.Model):
    """One step that is finished: a later attempt skips it."""

    id = models.BigAutoField(primary_key=True)
    job = OwnedBy("buildqueue.BuildJob", related_name="checkpoints", db_index=False)
    step = models.CharField(max_length=200, db_collation="C")
    lease_id = models.UUIDField(null=True)
    attempt = models.IntegerField()
    token = models.UUIDField(null=True)  # of the execution that has written it
    result = Document(null=True)
    finished_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        verbose_name = _("checkpoint")
        verbose_name_plural = _("checkpoints")
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                name="checkpoints_one_per_step", fields=["job", "step"]
            ),
        ]

    def __str__(self) -> str:
        return self.step


class JobProgress(models.Model):
    """What a job remembers and shows: one row, made when there is something."""

    job = OneOf("buildqueue.BuildJob", related_name="progress")
    lease_id = models.UUIDField(null=True)
    state = Document(db_default=EMPTY_OBJECT)
    evidence = Document(db_default=EMPTY_LIST)
    plan = Document(db_default=EMPTY_LIST)
    artifacts = Document(db_default=EMPTY_LIST)
    done = models.BigIntegerField(null=True)
    total = models.BigIntegerField(null=True)
    message = models.TextField(db_default="")
    waits_for = Document(
        null=True, help_text=_("What it waits for: a question, actions or children.")
    )
    answers = Document(db_default=EMPTY_OBJECT)
    updated_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        verbose_name = _("progress")
        verbose_name_plural = _("progress")
        default_permissions = ("view",)
        constraints = [
            models.CheckConstraint(
                name="chk_job_progress_count",
                condition=Q(done__isnull=True)
                | Q(done__gte=0) & (Q(total__isnull=True) | Q(total__gte=0)),
            ),
        ]

    def __str__(self) -> str:
        return f"progress of {str(self.job_id)[:8]}"
