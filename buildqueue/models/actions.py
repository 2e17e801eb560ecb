"""Which effects in the outside world has a job proposed, and what became of each?

An effect that must not happen twice is a row before it happens. Its content is what was
reviewed: a hash binds them, and a trigger refuses to change either. One that was under way
when its run died has an unknown outcome: nobody repeats it, a person looks and settles it.
"""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from ..states import ActionStatus
from .documents import Document
from .expressions import ClockTimestamp
from .keys import OwnedBy

REVIEWED = [
    ActionStatus.AWAITING_REVIEW,
    ActionStatus.APPROVED,
]


class JobAction(models.Model):
    """One outside effect of a job."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    job = OwnedBy("buildqueue.BuildJob", related_name="actions", db_index=False)
    key = models.CharField(
        max_length=200,
        db_collation="C",
        help_text=_("Names the effect within its job: proposing it again finds it."),
    )
    title = models.CharField(max_length=200)
    content = Document()
    content_hash = models.CharField(max_length=64, db_collation="C")
    status = models.CharField(max_length=20, choices=ActionStatus.choices)
    needs_review = models.BooleanField(db_default=True)
    asked_at = models.DateTimeField(
        db_default=ClockTimestamp(), help_text=_("Since when its time runs.")
    )
    expires_at = models.DateTimeField(null=True)
    lease_id = models.UUIDField(null=True)
    attempt = models.IntegerField(help_text=_("Of the job, when it was proposed."))
    created_at = models.DateTimeField(db_default=ClockTimestamp())
    decided_at = models.DateTimeField(null=True)
    decided_by = models.CharField(max_length=150, db_default="")
    decided_by_id = models.CharField(max_length=100, db_default="")
    reason = models.TextField(db_default="")
    settled_at = models.DateTimeField(null=True)
    settled_by = models.CharField(max_length=150, db_default="")
    settled_reason = models.TextField(db_default="")
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    receipt = Document(null=True)
    error_msg = models.TextField(null=True)

    class Meta:
        verbose_name = _("action")
        verbose_name_plural = _("actions")
        default_permissions = ("view",)
        permissions = [
            ("decide_jobaction", "Can approve and deny actions"),
            ("settle_jobaction", "Can settle actions of unknown outcome"),
        ]
        constraints = [
            models.CheckConstraint(
                name="chk_job_actions_status",
                condition=Q(status__in=ActionStatus.values),
            ),
            models.CheckConstraint(
                name="chk_job_actions_executing",
                condition=~Q(status=ActionStatus.EXECUTING)
                | Q(lease_id__isnull=False, started_at__isnull=False),
            ),
            models.UniqueConstraint(
                name="job_actions_one_per_key", fields=["job", "key"]
            ),
        ]
        indexes = [
            models.Index(
                fields=["expires_at"],
                name="job_actions_to_review",
                condition=Q(status__in=REVIEWED),
            ),
            models.Index(
                fields=["lease_id"],
                name="job_actions_executing",
                condition=Q(status=ActionStatus.EXECUTING),
            ),
            models.Index(fields=["-created_at"], name="job_actions_newest"),
            models.Index(
                fields=["job"],
                name="job_actions_unknown",
                condition=Q(status=ActionStatus.OUTCOME_UNKNOWN),
            ),
        ]

    def __str__(self) -> str:
        return self.title
