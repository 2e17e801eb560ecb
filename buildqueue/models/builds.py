"""What is stored of an agent's build?

Mirrors nasiko's `agent_builds` and fills what it never writes: the reason, the log's
address, the source's place and checksum. Statuses are written by `builds/lifecycle.py`.
"""

from __future__ import annotations

import uuid

from django.contrib.postgres.functions import RandomUUID
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ..states import BuildStatus
from .agents import EMPTY_OBJECT, Agent, AgentVersion
from .jobs import BuildJob
from .keys import OwnedBy


class AgentBuild(models.Model):
    """One build of an agent from one source."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, db_default=RandomUUID())
    agent = OwnedBy(Agent, related_name="builds", db_index=False)
    github_url = models.TextField(null=True, blank=True)
    commit_hash = models.CharField(max_length=64, null=True, blank=True)
    version_tag = models.CharField(max_length=128)
    image_reference = models.TextField(db_default="")
    status = models.CharField(
        max_length=20, choices=BuildStatus.choices, db_default=BuildStatus.QUEUED.value
    )
    logs_url = models.TextField(null=True, blank=True)
    logs = models.TextField(null=True, blank=True)
    k8s_job_name = models.CharField(max_length=255, null=True, blank=True)
    triggered_by = models.CharField(
        max_length=100, null=True, blank=True, db_collation="C"
    )
    version = models.ForeignKey(
        AgentVersion,
        models.DO_NOTHING,
        null=True,
        blank=True,
        related_name="+",
        db_constraint=False,
    )
    job = models.ForeignKey(
        BuildJob,
        models.DO_NOTHING,
        null=True,
        blank=True,
        related_name="agent_builds",
        db_constraint=False,
    )
    source_key = models.TextField(
        null=True, blank=True, help_text=_("The source's name in the source storage.")
    )
    source_sha256 = models.CharField(max_length=64, null=True, blank=True)
    source_size = models.BigIntegerField(null=True, blank=True)
    source_ref = models.CharField(
        max_length=255,
        null=True,
        blank=True,
        help_text=_("The branch or tag asked for."),
    )
    source_secret = models.CharField(
        max_length=128,
        null=True,
        blank=True,
        help_text=_("The owner's secret that holds the repository's token."),
    )
    source_token = models.TextField(
        null=True, blank=True, help_text=_("Ciphertext, never clear text.")
    )
    secrets_env = models.JSONField(
        db_default=EMPTY_OBJECT,
        blank=True,
        help_text=_("Given with this build: name to ciphertext, never clear text."),
    )
    phase = models.CharField(
        max_length=40, null=True, blank=True, help_text=_("The step it is or was in.")
    )
    exit_code = models.IntegerField(null=True, blank=True)
    hint = models.TextField(null=True, blank=True, help_text=_("What would help."))
    host = models.CharField(max_length=100, null=True, blank=True)
    error_code = models.CharField(max_length=100, null=True, blank=True)
    error_msg = models.TextField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(db_default=Now(), editable=False)
    completed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = _("build")
        verbose_name_plural = _("builds")
        default_permissions = ("view",)
        constraints = [
            models.CheckConstraint(
                name="chk_agent_builds_status",
                condition=Q(status__in=BuildStatus.values),
            ),
            models.CheckConstraint(
                name="chk_agent_builds_completed",
                condition=Q(
                    status__in=["success", "failed"], completed_at__isnull=False
                )
                | (~Q(status__in=["success", "failed"]) & Q(completed_at__isnull=True)),
            ),
        ]
        indexes = [
            models.Index(fields=["agent", "-created_at"], name="agent_builds_newest"),
            models.Index(
                fields=["created_at"],
                name="agent_builds_queued",
                condition=Q(status=BuildStatus.QUEUED),
            ),
            models.Index(
                fields=["source_key"],
                name="agent_builds_source",
                condition=Q(source_key__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.version_tag} {self.status}"
