"""The table is the queue: what is stored of a job?

Mirrors nasiko's `build_jobs` and adds what a queue needs besides. CHECK constraints
say the same as `states.py`, so no writer, raw SQL included, can store an impossible
job. Defaults stand in the database: an INSERT of nasiko's own columns is valid.
Status is written by `queue/transitions/` alone.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar

from django.contrib.postgres.functions import RandomUUID
from django.db import models
from django.db.models import F, Q, Value
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, Now
from django.utils.translation import gettext_lazy as _

from ..states import BUILD_KINDS, FINAL, UNCLAIMED, WAITING, JobStatus
from .documents import Document
from .expressions import NextValue
from .keys import TargetKey

if TYPE_CHECKING:
    from typing import Self

BUILD_KIND_TAGS = sorted([*BUILD_KINDS, *BUILD_KINDS.values()])


MOST = 1_000_000  # attempts and failures: far from where adding one overflows
MOMENTS = (datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC))


class JobQuerySet(models.QuerySet["BuildJob"]):
    """Questions about jobs; verbs live in `queue/`."""

    def open(self) -> Self:
        """Jobs that have not ended."""
        return self.exclude(status__in=sorted(FINAL))

    def for_owner(self, owner_id: str) -> Self:
        """Jobs enqueued by one owner."""
        return self.filter(owner_id=owner_id)


class BuildJob(models.Model):
    """One requested piece of work."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, db_default=RandomUUID())
    seq = models.BigIntegerField(
        _("sequence"),
        db_default=NextValue("buildqueue_job_seq"),
        editable=False,
        help_text=_("Ties are broken by the order of arrival."),
    )
    kind = models.GeneratedField(
        expression=Coalesce(KT("payload__kind"), Value("", models.TextField())),
        output_field=models.CharField(max_length=100, db_collation="C"),
        db_persist=True,
    )
    queue = models.CharField(max_length=100, db_default="default", db_collation="C")
    priority = models.SmallIntegerField(
        db_default=0, help_text=_("-100 to 100; the higher the sooner.")
    )
    agent = TargetKey("buildqueue.Agent", related_name="jobs")
    connector = TargetKey("buildqueue.McpConnector", related_name="jobs")
    owner_id = models.CharField(
        _("owner"),
        max_length=100,
        db_default="",
        db_collation="C",
        help_text=_("Who enqueued it."),
    )
    serial_key = models.CharField(
        max_length=200,
        null=True,
        blank=True,
        db_collation="C",
        help_text=_("At most one job with this key runs at a time."),
    )
    dedupe_key = models.CharField(
        max_length=200,
        null=True,
        blank=True,
        db_collation="C",
        help_text=_("At most one open job with this key exists."),
    )
    requires = models.CharField(
        max_length=200,
        null=True,
        blank=True,
        db_collation="C",
        help_text=_("A capability that the worker must have, such as host:<id>."),
    )
    payload = Document()
    status = models.CharField(
        max_length=20, choices=JobStatus.choices, db_default=JobStatus.PENDING.value
    )
    held = models.BooleanField(db_default=False)
    attempt = models.IntegerField(db_default=0, help_text=_("How often claimed."))
    failures = models.IntegerField(db_default=0)
    crashes = models.IntegerField(db_default=0)
    max_attempts = models.IntegerField(db_default=3)
    due_at = models.DateTimeField(db_default=Now())
    lease_id = models.UUIDField(null=True, editable=False)
    lease_until = models.DateTimeField(null=True, editable=False)
    slot = models.UUIDField(null=True, editable=False)
    worker = models.UUIDField(null=True, editable=False)
    parent = models.ForeignKey(
        "self",
        models.DO_NOTHING,
        null=True,
        blank=True,
        db_constraint=False,
        related_name="children",
        db_index=False,
    )
    limits = Document(
        null=True, blank=True, help_text=_("Its own limits, over those of its kind.")
    )
    trace_context = Document(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    first_started_at = models.DateTimeField(null=True, editable=False)
    picked_at = models.DateTimeField(null=True, editable=False)
    completed_at = models.DateTimeField(null=True, editable=False)
    error_code = models.CharField(max_length=100, null=True, editable=False)
    error_msg = models.TextField(null=True, editable=False)
    result = Document(null=True, editable=False)
    hook_pending = models.BooleanField(
        db_default=False,
        editable=False,
        help_text=_("The final hook raised and is tried again by a duty."),
    )

    objects: ClassVar[models.Manager[BuildJob]] = JobQuerySet.as_manager()

    class Meta:
        verbose_name = _("job")
        verbose_name_plural = _("jobs")
        default_permissions = ("add", "change", "view")
        permissions = [
            ("retry_buildjob", "Can retry jobs"),
            ("cancel_buildjob", "Can cancel jobs"),
            ("release_buildjob", "Can release jobs from their worker"),
            ("force_fail_buildjob", "Can declare jobs failed"),
            ("pause_buildjob", "Can pause and resume jobs"),
            ("reschedule_buildjob", "Can change priority and due time of jobs"),
            ("answer_buildjob", "Can answer the questions of jobs"),
            ("view_payload", "Can see the payload of jobs"),
            ("view_log", "Can see the log of jobs"),
        ]
        constraints = [
            models.CheckConstraint(
                name="chk_build_jobs_status",
                condition=Q(status__in=JobStatus.values),
            ),
            models.CheckConstraint(
                name="chk_build_jobs_one_target",
                condition=(
                    (Q(agent__isnull=True) | Q(connector__isnull=True))
                    & (
                        ~Q(kind__in=BUILD_KIND_TAGS)
                        | Q(agent__isnull=False)
                        | Q(connector__isnull=False)
                    )
                ),
            ),
            models.CheckConstraint(
                name="chk_build_jobs_completed",
                condition=Q(status__in=sorted(FINAL), completed_at__isnull=False)
                | (~Q(status__in=sorted(FINAL)) & Q(completed_at__isnull=True)),
            ),
            models.CheckConstraint(
                name="chk_build_jobs_lease",
                condition=Q(
                    status=JobStatus.IN_PROGRESS,
                    lease_id__isnull=False,
                    lease_until__isnull=False,
                    picked_at__isnull=False,
                )
                | (
                    ~Q(status=JobStatus.IN_PROGRESS)
                    & Q(lease_id__isnull=True, lease_until__isnull=True)
                ),
            ),
            models.CheckConstraint(
                name="chk_build_jobs_picked",
                condition=~Q(status__in=sorted(UNCLAIMED)) | Q(picked_at__isnull=True),
            ),
            models.CheckConstraint(
                name="chk_build_jobs_priority",
                condition=Q(priority__gte=-100, priority__lte=100),
            ),
            models.CheckConstraint(
                name="chk_build_jobs_counts",
                condition=Q(
                    attempt__range=(0, MOST),
                    failures__range=(0, MOST),
                    crashes__range=(0, MOST),
                    max_attempts__range=(1, MOST),
                ),
            ),
            # A moment that Python cannot hold would fail the statement that reads it.
            models.CheckConstraint(
                name="chk_build_jobs_moments",
                condition=Q(
                    created_at__range=MOMENTS,
                    due_at__range=MOMENTS,
                    lease_until__range=MOMENTS,
                    first_started_at__range=MOMENTS,
                    picked_at__range=MOMENTS,
                    completed_at__range=MOMENTS,
                ),
            ),
            models.CheckConstraint(
                name="chk_build_jobs_queue",
                condition=~Q(queue=""),
            ),
            models.UniqueConstraint(
                name="build_jobs_one_open_per_key",
                fields=["dedupe_key"],
                condition=Q(dedupe_key__isnull=False) & Q(completed_at__isnull=True),
            ),
            models.UniqueConstraint(
                name="build_jobs_one_lease",
                fields=["lease_id"],
                condition=Q(lease_id__isnull=False),
            ),
        ]
        indexes = [
            models.Index(
                F("queue"),
                F("priority").desc(),
                F("due_at"),
                F("seq"),
                name="build_jobs_work_queue",
                condition=Q(status=JobStatus.PENDING, held=False),
            ),
            models.Index(
                fields=["due_at"],
                name="build_jobs_scheduled",
                condition=Q(status=JobStatus.SCHEDULED),
            ),
            models.Index(
                fields=["lease_until"],
                name="build_jobs_leases",
                condition=Q(status=JobStatus.IN_PROGRESS),
            ),
            models.Index(
                fields=["slot"],
                name="build_jobs_slots",
                condition=Q(status=JobStatus.IN_PROGRESS),
            ),
            models.Index(
                fields=["serial_key", "seq"],
                name="build_jobs_serial",
                condition=Q(serial_key__isnull=False, completed_at__isnull=True),
            ),
            models.Index(
                fields=["connector"],
                name="idx_build_jobs_connector",
                condition=Q(connector__isnull=False),
            ),
            models.Index(
                fields=["agent"],
                name="idx_build_jobs_agent",
                condition=Q(agent__isnull=False),
            ),
            models.Index(
                fields=["parent"],
                name="build_jobs_children",
                condition=Q(parent__isnull=False),
            ),
            models.Index(
                fields=["parent"],
                name="build_jobs_open_children",
                condition=Q(parent__isnull=False, completed_at__isnull=True),
            ),
            models.Index(
                fields=["status"],
                name="build_jobs_parked",
                condition=Q(status__in=sorted(WAITING | {JobStatus.PAUSED}))
                | Q(status=JobStatus.PENDING, held=True),
            ),
            models.Index(
                fields=["id"],
                name="build_jobs_hooks",
                condition=Q(hook_pending=True),
            ),
            models.Index(fields=["owner_id", "-created_at"], name="build_jobs_owner"),
            models.Index(
                F("created_at").desc(), F("id").desc(), name="build_jobs_newest"
            ),
            models.Index(
                F("status"),
                F("created_at").desc(),
                F("id").desc(),
                name="build_jobs_ended",
                condition=Q(status__in=sorted(FINAL)),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {str(self.pk)[:8]}"

    @property
    def is_final(self) -> bool:
        """Whether the job has ended for good."""
        return self.status in FINAL
