"""Which agents are there, in which versions, deployed where?

Mirrors nasiko's `agents`, `agent_versions` and `agent_deployments`. Their statuses are
written by `builds/lifecycle.py` alone.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, ClassVar

from django.contrib.postgres.functions import RandomUUID
from django.db import models
from django.db.models import Q, Value
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ..states import AgentStatus, DeploymentStatus, GrantType, VersionStatus
from .arrays import Array
from .keys import OwnedBy

if TYPE_CHECKING:
    from typing import Self

EMPTY_OBJECT = Value({}, models.JSONField())
MOST_REPLICAS = 16


class AgentQuerySet(models.QuerySet["Agent"]):
    """Questions about agents."""

    def live(self) -> Self:
        """Agents that were not deleted."""
        return self.filter(deleted_at__isnull=True)

    def for_owner(self, owner_id: str) -> Self:
        """Agents of one owner."""
        return self.filter(owner_id=owner_id)


class Agent(models.Model):
    """A program that its owner has deployed, or wants to."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, db_default=RandomUUID())
    name = models.CharField(max_length=128, db_collation="C")
    display_name = models.TextField(null=True, blank=True)
    description = models.TextField(null=True, blank=True)
    owner_id = models.CharField(_("owner"), max_length=100, db_collation="C")
    url = models.TextField(
        null=True, blank=True, help_text=_("Its one address for life.")
    )
    transport_path = models.TextField(null=True, blank=True)
    version = models.CharField(max_length=50, db_default="1.0.0")
    capabilities = models.JSONField(db_default=EMPTY_OBJECT)
    skills = models.JSONField(db_default=Value([], models.JSONField()))
    security = models.JSONField(db_default=EMPTY_OBJECT)
    tags = Array(models.CharField(max_length=100), db_default=Value([]), blank=True)
    metadata = models.JSONField(db_default=EMPTY_OBJECT)
    secrets_env = models.JSONField(
        db_default=EMPTY_OBJECT, help_text=_("Name to ciphertext, never clear text.")
    )
    status = models.CharField(
        max_length=20,
        choices=AgentStatus.choices,
        db_default=AgentStatus.REGISTERED.value,
    )
    image = models.TextField(null=True, blank=True)
    is_public = models.BooleanField(db_default=False)
    ports = Array(
        models.IntegerField(),
        db_default=Value([]),
        blank=True,
        help_text=_("Asked for by its owner; none: as its source says."),
    )
    replicas = models.SmallIntegerField(db_default=1)
    resources = models.JSONField(
        db_default=EMPTY_OBJECT,
        blank=True,
        help_text=_("Limits of each instance: memory_mb, cpus, processes."),
    )
    writable = models.BooleanField(db_default=False)
    writable_path = models.CharField(max_length=255, null=True, blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(db_default=Now(), editable=False)

    objects: ClassVar[models.Manager[Agent]] = AgentQuerySet.as_manager()

    class Meta:
        verbose_name = _("agent")
        verbose_name_plural = _("agents")
        permissions = [
            ("deploy_agent", "Can upload and deploy agents"),
            ("stop_agent", "Can stop agents"),
        ]
        constraints = [
            models.CheckConstraint(
                name="chk_agents_status",
                condition=Q(status__in=AgentStatus.values),
            ),
            models.CheckConstraint(name="chk_agents_name", condition=~Q(name="")),
            models.CheckConstraint(
                name="chk_agents_replicas",
                condition=Q(replicas__range=(1, MOST_REPLICAS)),
            ),
            models.UniqueConstraint(
                name="agents_owner_name_active_uniq",
                fields=["owner_id", "name"],
                condition=Q(deleted_at__isnull=True),
            ),
        ]
        indexes = [
            models.Index(fields=["status"], name="agents_status"),
            models.Index(fields=["-created_at"], name="agents_newest"),
        ]

    def __str__(self) -> str:
        return self.name


class AgentVersion(models.Model):
    """A version of an agent: plain x.y.z, unique, never changed once built."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, db_default=RandomUUID())
    agent = OwnedBy(Agent, related_name="versions", db_index=False)
    build = models.ForeignKey(
        "buildqueue.AgentBuild",
        models.DO_NOTHING,
        null=True,
        blank=True,
        related_name="+",
        db_constraint=False,
    )
    version = models.CharField(max_length=50)
    image_tag = models.TextField(db_default="")
    changelog = models.TextField(null=True, blank=True)
    is_active = models.BooleanField(db_default=False)
    status = models.CharField(
        max_length=20,
        choices=VersionStatus.choices,
        db_default=VersionStatus.ACTIVE.value,
    )
    can_rollback = models.BooleanField(db_default=False)
    previous_version = models.CharField(max_length=50, null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("version")
        verbose_name_plural = _("versions")
        default_permissions = ("view",)
        constraints = [
            models.CheckConstraint(
                name="chk_agent_versions_status",
                condition=Q(status__in=VersionStatus.values),
            ),
            models.CheckConstraint(
                name="chk_agent_versions_active",
                condition=Q(is_active=False) | Q(status=VersionStatus.ACTIVE),
            ),
            models.CheckConstraint(
                name="chk_agent_versions_semver",
                condition=Q(version__regex=r"^(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}$"),
            ),
            models.UniqueConstraint(
                name="agent_versions_uniq", fields=["agent", "version"]
            ),
            models.UniqueConstraint(
                name="agent_versions_one_active",
                fields=["agent"],
                condition=Q(is_active=True),
            ),
        ]
        indexes = [
            models.Index(fields=["agent", "status"], name="agent_versions_status")
        ]

    def __str__(self) -> str:
        return self.version


class AgentDeployment(models.Model):
    """A deployment of an agent's build; history is kept, one row runs."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, db_default=RandomUUID())
    agent = OwnedBy(Agent, related_name="deployments")
    build = models.ForeignKey(
        "buildqueue.AgentBuild", models.PROTECT, related_name="deployments"
    )
    namespace = models.CharField(max_length=255, db_default="nasiko-agents")
    replicas = models.SmallIntegerField(db_default=1)
    status = models.CharField(
        max_length=20,
        choices=DeploymentStatus.choices,
        db_default=DeploymentStatus.STARTING.value,
    )
    service_url = models.TextField(null=True, blank=True)
    k8s_deployment_name = models.CharField(max_length=255, null=True, blank=True)
    owner_id = models.CharField(max_length=100, null=True, blank=True, db_collation="C")
    spec_ports = Array(models.IntegerField(), db_default=Value([8000]), blank=True)
    spec_image = models.TextField(null=True, blank=True)
    spec_env = Array(
        models.CharField(max_length=128),
        db_default=Value([]),
        blank=True,
        help_text=_("The names of its environment; values stand nowhere."),
    )
    spec_resources = models.JSONField(db_default=EMPTY_OBJECT, blank=True)
    writable = models.BooleanField(db_default=False)
    writable_path = models.CharField(max_length=255, null=True, blank=True)
    runtime = models.CharField(
        max_length=50, db_default="local", help_text=_("The backend that runs it.")
    )
    host = models.CharField(
        max_length=100,
        null=True,
        blank=True,
        help_text=_("The machine it runs on, where the backend is bound to one."),
    )
    pod_name = models.CharField(max_length=255, null=True, blank=True)
    crash_reason = models.TextField(null=True, blank=True)
    restart_count = models.IntegerField(db_default=0)
    crashed_at = models.DateTimeField(null=True, blank=True)
    last_logs = models.TextField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(null=True, db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("deployment")
        verbose_name_plural = _("deployments")
        default_permissions = ("view",)
        constraints = [
            models.CheckConstraint(
                name="chk_agent_deployments_status",
                condition=Q(status__in=DeploymentStatus.values),
            ),
            models.CheckConstraint(
                name="chk_agent_deployments_counts",
                condition=Q(replicas__gte=0, restart_count__gte=0),
            ),
            models.UniqueConstraint(
                name="agent_deployments_one_running",
                fields=["agent"],
                condition=Q(status=DeploymentStatus.RUNNING),
            ),
        ]
        indexes = [
            models.Index(fields=["owner_id", "-created_at"], name="deployments_owner")
        ]

    def __str__(self) -> str:
        return f"{self.agent_id} {self.status}"


class AgentGrant(models.Model):
    """An agent opened to somebody besides its owner."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, db_default=RandomUUID())
    agent = OwnedBy(Agent, related_name="grants", db_index=False)
    grant_type = models.CharField(max_length=10, choices=GrantType.choices)
    grantee_id = models.CharField(
        max_length=100, db_collation="C", help_text=_("A user's key; * for everybody.")
    )
    can_manage = models.BooleanField(
        db_default=False, help_text=_("May update, roll back, stop and start it, too.")
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("grant")
        verbose_name_plural = _("grants")
        constraints = [
            models.UniqueConstraint(
                name="agent_grants_uniq", fields=["agent", "grant_type", "grantee_id"]
            ),
            # What everybody has is a look, never a change.
            models.CheckConstraint(
                name="chk_agent_grants_public",
                condition=Q(
                    grant_type=GrantType.PUBLIC, grantee_id="*", can_manage=False
                )
                | (Q(grant_type=GrantType.USER) & ~Q(grantee_id__in=["", "*"])),
            ),
        ]
        indexes = [models.Index(fields=["grantee_id"], name="agent_grants_grantee")]

    def __str__(self) -> str:
        return f"{self.grant_type} {self.grantee_id}"
