"""Which branches and tags are followed, and what was proposed because of them?

Statuses are written by `builds/watches` and `builds/proposals` alone.
"""

from __future__ import annotations

import uuid

from django.contrib.postgres.functions import RandomUUID
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ..states import ProposalStatus, WatchMode, WatchStatus
from .agents import Agent
from .jobs import BuildJob
from .keys import OwnedBy


class SourceWatch(models.Model):
    """A branch or tag of a repository that an agent follows."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, db_default=RandomUUID())
    agent = OwnedBy(Agent, related_name="watches", db_index=False)
    git_url = models.TextField()
    ref = models.CharField(
        max_length=255, help_text=_("The branch or tag that is followed.")
    )
    secret_name = models.CharField(
        max_length=128,
        null=True,
        blank=True,
        help_text=_("The owner's secret that holds the token of the repository."),
    )
    mode = models.CharField(
        max_length=10, choices=WatchMode.choices, db_default=WatchMode.PROPOSE.value
    )
    bump = models.CharField(
        max_length=10,
        choices=[(each, each) for each in ("patch", "minor", "major")],
        db_default="patch",
    )
    interval_minutes = models.IntegerField(db_default=10)
    status = models.CharField(
        max_length=10, choices=WatchStatus.choices, db_default=WatchStatus.ACTIVE.value
    )
    pause_reason = models.TextField(null=True, blank=True)
    failures = models.IntegerField(
        db_default=0, help_text=_("In a row; the fifth pauses it.")
    )
    last_error = models.TextField(null=True, blank=True)
    last_commit = models.CharField(max_length=64, null=True, blank=True)
    checked_at = models.DateTimeField(null=True, blank=True)
    due_at = models.DateTimeField(db_default=Now())
    created_by = models.CharField(max_length=100, db_default="", db_collation="C")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("watch")
        verbose_name_plural = _("watches")
        constraints = [
            models.UniqueConstraint(
                name="source_watches_uniq", fields=["agent", "git_url", "ref"]
            ),
            models.CheckConstraint(
                name="chk_source_watches_status",
                condition=Q(status__in=WatchStatus.values),
            ),
            models.CheckConstraint(
                name="chk_source_watches_mode", condition=Q(mode__in=WatchMode.values)
            ),
            models.CheckConstraint(
                name="chk_source_watches_bump",
                condition=Q(bump__in=["patch", "minor", "major"]),
            ),
            models.CheckConstraint(
                name="chk_source_watches_interval",
                condition=Q(interval_minutes__range=(1, 10_080)),
            ),
            models.CheckConstraint(
                name="chk_source_watches_failures", condition=Q(failures__gte=0)
            ),
        ]
        indexes = [
            models.Index(
                fields=["due_at"],
                name="source_watches_due",
                condition=Q(status=WatchStatus.ACTIVE),
            )
        ]

    def __str__(self) -> str:
        # Without what other systems may have put into the address beside its place.
        place = self.git_url.partition("?")[0].partition("#")[0].rpartition("@")[2]
        return f"{self.ref} of {place.removeprefix('https://')}"


class Proposal(models.Model):
    """An update that a watch has found and a person may accept, once."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    watch = OwnedBy(SourceWatch, related_name="proposals", db_index=False)
    agent = OwnedBy(Agent, related_name="proposals", db_index=False)
    commit_hash = models.CharField(max_length=64)
    summary = models.TextField(db_default="")
    status = models.CharField(
        max_length=10,
        choices=ProposalStatus.choices,
        db_default=ProposalStatus.OPEN.value,
    )
    job = models.ForeignKey(
        BuildJob,
        models.DO_NOTHING,
        null=True,
        blank=True,
        related_name="proposals",
        db_constraint=False,
    )
    decided_by = models.CharField(max_length=200, null=True, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("proposal")
        verbose_name_plural = _("proposals")
        default_permissions = ("view",)
        permissions = [("decide_proposal", "Can accept and dismiss proposals")]
        constraints = [
            models.UniqueConstraint(
                name="proposals_one_per_commit", fields=["watch", "commit_hash"]
            ),
            models.CheckConstraint(
                name="chk_proposals_status",
                condition=Q(status__in=ProposalStatus.values),
            ),
            models.CheckConstraint(
                name="chk_proposals_decided",
                condition=Q(status=ProposalStatus.OPEN, decided_at__isnull=True)
                | (~Q(status=ProposalStatus.OPEN) & Q(decided_at__isnull=False)),
            ),
        ]
        indexes = [
            models.Index(
                fields=["agent", "-created_at"],
                name="proposals_open",
                condition=Q(status=ProposalStatus.OPEN),
            )
        ]

    def __str__(self) -> str:
        return f"{self.commit_hash[:12]} {self.status}"
