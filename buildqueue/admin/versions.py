"""Versions and deployments of agents: read only, each linked to what made it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import AgentDeployment, AgentVersion
from ..states import DeploymentStatus
from . import display, moments, wishes
from .base import ReadOnlyAdmin


@admin.register(AgentVersion)
class AgentVersionAdmin(ReadOnlyAdmin):
    """Versions, newest first."""

    list_display = ("version", "agent", "state", "can_rollback", "created")
    list_filter = ("status",)
    list_select_related = ("agent",)
    allowed_lookups = frozenset({"status__exact", "agent"})
    ordering = ("-created_at", "-id")
    search_fields = ("agent__name__startswith",)
    fields = (
        "version",
        "agent",
        "state",
        "is_active",
        "can_rollback",
        "previous_version",
        "image",
        "changelog",
        "build",
        "created",
    )
    readonly_fields = ("state", "image", "created")

    @admin.display(description=gettext_lazy("Status"))
    def state(self, version: AgentVersion) -> display.Shown:
        """Icon and word."""
        return display.badge(version.status, version.get_status_display())

    @admin.display(description=gettext_lazy("Created"))
    def created(self, version: AgentVersion) -> display.Shown:
        """How long ago it was reserved."""
        return moments.ago(version.created_at)

    @admin.display(description=gettext_lazy("Image"))
    def image(self, version: AgentVersion) -> display.Shown:
        """What it is run from."""
        return display.mono(version.image_tag)


@admin.register(AgentDeployment)
class AgentDeploymentAdmin(ReadOnlyAdmin):
    """Deployments, newest first."""

    list_display = (
        "short_id",
        "agent",
        "version",
        "state",
        "runtime",
        "host",
        "address",
        "restart_count",
        "created",
    )
    list_filter = ("status",)
    list_select_related = ("agent", "build")
    allowed_lookups = frozenset({"status__exact", "agent"})
    ordering = ("-created_at", "-id")
    search_fields = ("agent__name__startswith",)
    fields = (
        "agent",
        "version",
        "build",
        "state",
        "address",
        "created",
        "restart_count",
        "crash",
        "crashed_at",
        "runtime",
        "host",
        "image",
        "used_ports",
        "replicas",
        "limits",
        "writes_to",
        "variables",
        "last_output",
    )
    printed = frozenset({"last_output"})
    readonly_fields = (
        "version",
        "state",
        "address",
        "created",
        "crash",
        "image",
        "used_ports",
        "limits",
        "writes_to",
        "variables",
        "last_output",
    )

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Call it as people do: by its agent and version."""
        deployment = kwargs.get("obj")
        if isinstance(deployment, AgentDeployment):
            names = {"agent": deployment.agent, "version": self.version(deployment)}
            context["subtitle"] = _("%(agent)s %(version)s") % names
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=gettext_lazy("Version"))
    def version(self, deployment: AgentDeployment) -> str:
        """The version that its build made."""
        return deployment.build.version_tag

    @admin.display(description=gettext_lazy("Deployment"))
    def short_id(self, deployment: AgentDeployment) -> str:
        """The letters that people tell it by."""
        return display.short(deployment.pk)

    @admin.display(description=gettext_lazy("Status"))
    def state(self, deployment: AgentDeployment) -> display.Shown:
        """Icon and word."""
        if deployment.status == "running":
            return display.badge("active", deployment.get_status_display())
        return display.badge(deployment.status, deployment.get_status_display())

    @admin.display(description=gettext_lazy("Address"))
    def address(self, deployment: AgentDeployment) -> display.Shown:
        """Where it answers; a link while it does."""
        if deployment.status != DeploymentStatus.RUNNING:
            return deployment.service_url or display.NOTHING
        return display.outside(deployment.service_url)

    @admin.display(description=gettext_lazy("Created"))
    def created(self, deployment: AgentDeployment) -> display.Shown:
        """How long ago it was begun."""
        return moments.ago(deployment.created_at)

    @admin.display(description=gettext_lazy("Crash reason"))
    def crash(self, deployment: AgentDeployment) -> display.Shown:
        """Why it did not stay up."""
        return display.block(deployment.crash_reason)

    @admin.display(description=gettext_lazy("Image"))
    def image(self, deployment: AgentDeployment) -> display.Shown:
        """What it was run from."""
        return display.mono(deployment.spec_image)

    @admin.display(description=gettext_lazy("Ports"))
    def used_ports(self, deployment: AgentDeployment) -> str:
        """The ports of its program."""
        return wishes.ports(deployment.spec_ports)

    @admin.display(description=gettext_lazy("Limits of each copy"))
    def limits(self, deployment: AgentDeployment) -> str:
        """Memory, processors and processes."""
        return wishes.limits(deployment.spec_resources)

    @admin.display(description=gettext_lazy("Keeps files"))
    def writes_to(self, deployment: AgentDeployment) -> str:
        """Whether it had a folder that outlives it."""
        return wishes.writable(deployment)

    @admin.display(description=gettext_lazy("Environment"))
    def variables(self, deployment: AgentDeployment) -> str:
        """The names alone."""
        return display.names(deployment.spec_env)

    @admin.display(description=gettext_lazy("Last output"))
    def last_output(self, deployment: AgentDeployment) -> display.Shown:
        """What it printed before it crashed."""
        return display.block(deployment.last_logs)
