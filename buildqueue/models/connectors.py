"""Which MCP connectors are there, and how were they built?

Mirrors nasiko's `mcp_connectors` and `mcp_connector_builds`, with its checks. Statuses
are written by `builds/lifecycle.py` alone.
"""

from __future__ import annotations

import uuid

from django.contrib.postgres.functions import RandomUUID
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ..states import (
    ConnectorAuth,
    ConnectorBuildStatus,
    ConnectorProvider,
    ConnectorSetupStatus,
    ConnectorSource,
    ConnectorStatus,
)
from .agents import EMPTY_OBJECT
from .jobs import BuildJob
from .keys import OwnedBy

_UPLOADED = Q(
    provider_type=ConnectorProvider.MCP_SERVER,
    source_kind=ConnectorSource.UPLOADED_BUILD,
    auth_config_id__isnull=True,
)


class McpConnector(models.Model):
    """A server of tools that agents may call."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, db_default=RandomUUID())
    provider_type = models.CharField(max_length=20, choices=ConnectorProvider.choices)
    owner_id = models.CharField(
        _("owner"), max_length=100, null=True, blank=True, db_collation="C"
    )
    name = models.CharField(max_length=128, db_collation="C")
    display_name = models.TextField(null=True, blank=True)
    logo_url = models.TextField(null=True, blank=True)
    description = models.TextField(null=True, blank=True)
    auth_config_id = models.TextField(null=True, blank=True)
    auth_scheme = models.CharField(max_length=50, db_default="OAUTH2")
    use_composio_managed = models.BooleanField(db_default=False)
    url = models.TextField(null=True, blank=True)
    transport = models.CharField(max_length=50, db_default="streamable_http")
    auth_type = models.CharField(
        max_length=20,
        choices=ConnectorAuth.choices,
        db_default=ConnectorAuth.NONE.value,
    )
    url_param_name = models.CharField(max_length=100, null=True, blank=True)
    credential_header_name = models.CharField(
        max_length=100, db_default="Authorization"
    )
    headers = models.JSONField(db_default=EMPTY_OBJECT)
    is_active = models.BooleanField(db_default=True)
    oauth_client_id = models.TextField(null=True, blank=True)
    oauth_client_secret = models.TextField(
        null=True, blank=True, help_text=_("Ciphertext, never clear text.")
    )
    oauth_authorize_url = models.TextField(null=True, blank=True)
    oauth_token_url = models.TextField(null=True, blank=True)
    oauth_scopes = models.TextField(null=True, blank=True)
    source_kind = models.CharField(
        max_length=20,
        choices=ConnectorSource.choices,
        db_default=ConnectorSource.EXTERNAL_URL.value,
    )
    build_status = models.CharField(
        max_length=20, choices=ConnectorStatus.choices, null=True, blank=True
    )
    build_secrets_env = models.JSONField(
        db_default=EMPTY_OBJECT, help_text=_("Name to ciphertext, never clear text.")
    )
    container_image_tag = models.TextField(null=True, blank=True)
    setup_status = models.CharField(
        max_length=20, choices=ConnectorSetupStatus.choices, null=True, blank=True
    )
    setup_error = models.TextField(null=True, blank=True)
    runtime = models.CharField(max_length=50, null=True, blank=True)
    host = models.CharField(
        max_length=100,
        null=True,
        blank=True,
        help_text=_("The machine it runs on, where the runtime is bound to one."),
    )
    instance_id = models.UUIDField(
        null=True, blank=True, help_text=_("The instance that its address leads to.")
    )
    restart_count = models.IntegerField(db_default=0)
    crash_reason = models.TextField(null=True, blank=True)
    crashed_at = models.DateTimeField(null=True, blank=True)
    last_logs = models.TextField(null=True, blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("connector")
        verbose_name_plural = _("connectors")
        constraints = [
            models.CheckConstraint(
                name="chk_connectors_provider",
                condition=Q(provider_type__in=ConnectorProvider.values),
            ),
            models.CheckConstraint(
                name="chk_connectors_source",
                condition=Q(source_kind__in=ConnectorSource.values),
            ),
            models.CheckConstraint(
                name="chk_connectors_auth",
                condition=Q(auth_type__in=ConnectorAuth.values),
            ),
            models.CheckConstraint(
                name="chk_connectors_build_status",
                condition=Q(build_status__isnull=True)
                | Q(build_status__in=ConnectorStatus.values),
            ),
            models.CheckConstraint(
                name="chk_connectors_setup_status",
                condition=Q(setup_status__isnull=True)
                | Q(setup_status__in=ConnectorSetupStatus.values),
            ),
            models.CheckConstraint(
                name="chk_connectors_provider_fields",
                condition=Q(
                    provider_type=ConnectorProvider.COMPOSIO,
                    auth_config_id__isnull=False,
                    url__isnull=True,
                )
                | Q(
                    provider_type=ConnectorProvider.MCP_SERVER,
                    source_kind=ConnectorSource.EXTERNAL_URL,
                    url__isnull=False,
                )
                | (
                    _UPLOADED
                    & (
                        Q(build_status__in=["pending", "building", "failed"])
                        | Q(build_status="running", url__isnull=False)
                    )
                    & Q(build_status__isnull=False)
                ),
            ),
            models.UniqueConstraint(
                name="connectors_owner_name_uniq",
                fields=["name", "owner_id"],
                condition=Q(owner_id__isnull=False, deleted_at__isnull=True),
            ),
            models.UniqueConstraint(
                name="connectors_name_uniq",
                fields=["name"],
                condition=Q(owner_id__isnull=True, deleted_at__isnull=True),
            ),
        ]
        indexes = [
            models.Index(fields=["owner_id"], name="connectors_owner"),
            models.Index(fields=["provider_type"], name="connectors_provider"),
            models.Index(
                fields=["id"], name="connectors_active", condition=Q(is_active=True)
            ),
        ]

    def __str__(self) -> str:
        return self.name


class McpConnectorBuild(models.Model):
    """One build of a connector from one source."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, db_default=RandomUUID())
    connector = OwnedBy(McpConnector, related_name="builds", db_index=False)
    owner_id = models.CharField(max_length=100, db_collation="C")
    version_tag = models.CharField(max_length=128)
    github_url = models.TextField(null=True, blank=True)
    source_key = models.TextField(null=True, blank=True)
    source_sha256 = models.CharField(max_length=64, null=True, blank=True)
    source_size = models.BigIntegerField(null=True, blank=True)
    source_ref = models.CharField(max_length=255, null=True, blank=True)
    source_secret = models.CharField(max_length=128, null=True, blank=True)
    source_token = models.TextField(
        null=True, blank=True, help_text=_("Ciphertext, never clear text.")
    )
    secrets_env = models.JSONField(
        db_default=EMPTY_OBJECT,
        blank=True,
        help_text=_("Given with this build: name to ciphertext, never clear text."),
    )
    commit_hash = models.CharField(max_length=64, null=True, blank=True)
    triggered_by = models.CharField(
        max_length=100, null=True, blank=True, db_collation="C"
    )
    image_tag = models.TextField(null=True, blank=True)
    detected_runtime = models.CharField(max_length=20, null=True, blank=True)
    status = models.CharField(
        max_length=20,
        choices=ConnectorBuildStatus.choices,
        db_default=ConnectorBuildStatus.PENDING.value,
    )
    job = models.ForeignKey(
        BuildJob,
        models.DO_NOTHING,
        null=True,
        blank=True,
        related_name="connector_builds",
        db_constraint=False,
    )
    phase = models.CharField(max_length=40, null=True, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    hint = models.TextField(null=True, blank=True)
    logs = models.TextField(null=True, blank=True)
    host = models.CharField(max_length=100, null=True, blank=True)
    error_code = models.CharField(max_length=100, null=True, blank=True)
    error_msg = models.TextField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(db_default=Now(), editable=False)
    completed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = _("connector build")
        verbose_name_plural = _("connector builds")
        default_permissions = ("view",)
        constraints = [
            models.CheckConstraint(
                name="chk_connector_builds_status",
                condition=Q(status__in=ConnectorBuildStatus.values),
            ),
            models.CheckConstraint(
                name="chk_connector_builds_runtime",
                condition=Q(detected_runtime__isnull=True)
                | Q(detected_runtime__in=["python", "node", "unknown"]),
            ),
            models.CheckConstraint(
                name="chk_connector_builds_completed",
                condition=Q(
                    status__in=["success", "failed"], completed_at__isnull=False
                )
                | (~Q(status__in=["success", "failed"]) & Q(completed_at__isnull=True)),
            ),
        ]
        indexes = [
            models.Index(
                fields=["connector", "-created_at"], name="connector_builds_newest"
            ),
            models.Index(
                fields=["source_key"],
                name="connector_builds_source",
                condition=Q(source_key__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.version_tag} {self.status}"


class McpConnectorTool(models.Model):
    """A tool that a connector's server offers, as it told last."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, db_default=RandomUUID())
    connector = OwnedBy(McpConnector, related_name="tools", db_index=False)
    name = models.CharField(max_length=255, db_collation="C")
    title = models.TextField(null=True, blank=True)
    description = models.TextField(null=True, blank=True)
    input_schema = models.JSONField(db_default=EMPTY_OBJECT)
    seen_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("tool")
        verbose_name_plural = _("tools")
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                name="connector_tools_uniq", fields=["connector", "name"]
            )
        ]

    def __str__(self) -> str:
        return self.name
