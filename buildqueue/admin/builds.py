"""Builds of agents and connectors: which phase, which reason, which job made them."""

from __future__ import annotations

from django.contrib import admin
from django.utils.translation import gettext_lazy

from ..models import AgentBuild, McpConnectorBuild
from . import display, moments, people
from .base import ReadOnlyAdmin
from .masking import masked

Build = AgentBuild | McpConnectorBuild
COMPUTED: tuple[str, ...] = ("state", "job_link", "created", "lasted", "error")


class BuildColumns(ReadOnlyAdmin):
    """What both kinds of builds show."""

    list_filter = ("status",)
    ordering = ("-created_at", "-id")
    readonly_fields = COMPUTED

    @admin.display(description=gettext_lazy("Build"))
    def short_id(self, build: Build) -> str:
        """The letters that people tell it by."""
        return display.short(build.pk)

    @admin.display(description=gettext_lazy("Status"))
    def state(self, build: Build) -> display.Shown:
        """Icon and word."""
        return display.badge(build.status, build.get_status_display())

    @admin.display(description=gettext_lazy("Job"))
    def job_link(self, build: Build) -> display.Shown:
        """The job that made it; the link asks the job's page for permission."""
        if build.job_id is None:
            return display.NOTHING
        address = self.admin_url("buildjob_change", build.job_id)
        return display.link(address, display.short(build.job_id))

    @admin.display(description=gettext_lazy("Created"))
    def created(self, build: Build) -> display.Shown:
        """How long ago it was asked for."""
        return moments.ago(build.created_at)

    @admin.display(description=gettext_lazy("Took"))
    def lasted(self, build: Build) -> str:
        """How long it took, until now when it has not ended."""
        return moments.between(build.created_at, build.completed_at)

    @admin.display(description=gettext_lazy("Error"))
    def error(self, build: Build) -> display.Shown:
        """The code of why it failed."""
        return display.code(build.error_code)


@admin.register(AgentBuild)
class AgentBuildAdmin(BuildColumns):
    """Builds of agents, newest first."""

    list_display = (
        "short_id",
        "agent",
        "version_tag",
        "state",
        "phase",
        "error",
        "job_link",
        "created",
        "lasted",
    )
    list_select_related = ("agent",)
    allowed_lookups = frozenset({"status__exact", "agent"})
    search_fields = ("agent__name__startswith",)
    fields = (
        "agent",
        "version_tag",
        "state",
        "phase",
        "error",
        "error_msg",
        "job_link",
        "image_reference",
        "repository",
        "commit_hash",
        "source_key",
        "source_sha256",
        "asked_by",
        "created",
        "lasted",
    )
    readonly_fields = (*COMPUTED, "repository", "asked_by")

    @admin.display(description=gettext_lazy("Repository"))
    def repository(self, build: AgentBuild) -> display.Shown:
        """Where its source came from, without any password in the address."""
        return display.outside(masked(build.github_url or ""))

    @admin.display(description=gettext_lazy("Asked for by"))
    def asked_by(self, build: AgentBuild) -> str:
        """Who asked for it."""
        return people.shown(build.triggered_by)


@admin.register(McpConnectorBuild)
class McpConnectorBuildAdmin(BuildColumns):
    """Builds of connectors, newest first."""

    list_display = (
        "short_id",
        "connector",
        "version_tag",
        "state",
        "phase",
        "error",
        "job_link",
        "created",
        "lasted",
    )
    list_select_related = ("connector",)
    allowed_lookups = frozenset({"status__exact", "connector"})
    search_fields = ("connector__name__startswith",)
    fields = (
        "connector",
        "version_tag",
        "state",
        "phase",
        "error",
        "error_msg",
        "job_link",
        "image_tag",
        "detected_runtime",
        "source_key",
        "created",
        "lasted",
    )
