"""Builds of agents and connectors: from which source, how far, and why not further.

A source is told by its repository and commit, or by its name and checksum in the source
storage; the token that fetched it and the environment that came along are never read.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import AgentBuild, McpConnectorBuild
from . import display, moments, people, repositories
from .base import ReadOnlyAdmin

Build = AgentBuild | McpConnectorBuild
CIPHERTEXTS = ("secrets_env", "source_token")
HAPPENED = (
    "made_version",
    "state",
    "step",
    "error",
    "exit",
    "job_link",
    "log_link",
    "reason",
    "help",
)
SOURCE = (
    "repository",
    "branch",
    "commit",
    "token_name",
    "size",
    "stored",
    "checksum",
)
ASKED = ("asked_by", "on_host", "created", "lasted")


class BuildColumns(ReadOnlyAdmin):
    """What both kinds of builds show."""

    list_filter = ("status",)
    ordering = ("-created_at", "-id")
    printed = frozenset({"last_lines"})
    readonly_fields = (*HAPPENED, *SOURCE, *ASKED, "made", "last_lines")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Read no ciphertext, and no output for a list."""
        return super().get_queryset(request).defer(*CIPHERTEXTS, "logs")

    @admin.display(description=gettext_lazy("Build"))
    def short_id(self, build: Build) -> str:
        """The letters that people tell it by."""
        return display.short(build.pk)

    @admin.display(description=gettext_lazy("Version"))
    def made_version(self, build: Build) -> str:
        """The version that it makes."""
        return build.version_tag

    @admin.display(description=gettext_lazy("Status"))
    def state(self, build: Build) -> display.Shown:
        """Icon and word."""
        return display.badge(build.status, build.get_status_display())

    @admin.display(description=gettext_lazy("Phase"))
    def step(self, build: Build) -> str:
        """The step it is or was in."""
        return build.phase or display.NOTHING

    @admin.display(description=gettext_lazy("Error"))
    def error(self, build: Build) -> display.Shown:
        """The code of why it failed."""
        return display.code(build.error_code)

    @admin.display(description=gettext_lazy("Reason"))
    def reason(self, build: Build) -> display.Shown:
        """Why it failed, in words."""
        return display.block(build.error_msg)

    @admin.display(description=gettext_lazy("What helps"))
    def help(self, build: Build) -> str:
        """What to do about it."""
        return build.hint or display.NOTHING

    @admin.display(description=gettext_lazy("Exit code"))
    def exit(self, build: Build) -> str:
        """What the command that failed ended with."""
        return display.NOTHING if build.exit_code is None else str(build.exit_code)

    @admin.display(description=gettext_lazy("Job"))
    def job_link(self, build: Build) -> display.Shown:
        """The job that made it; the link asks the job's page for permission."""
        if build.job_id is None:
            return display.NOTHING
        address = self.admin_url("buildjob_change", build.job_id)
        return display.link(address, display.short(build.job_id))

    @admin.display(description=gettext_lazy("Log"))
    def log_link(self, build: Build) -> display.Shown:
        """Where all that it printed stands, live while it runs."""
        if build.job_id is None:
            return display.NOTHING
        address = self.admin_url("buildjob_change", build.job_id)
        return display.link(f"{address}#bq-log-title", _("The job's log"))

    @admin.display(description=gettext_lazy("Repository"))
    def repository(self, build: Build) -> display.Shown:
        """Where its source came from, without any password in the address."""
        return repositories.repository(build.github_url)

    @admin.display(description=gettext_lazy("Branch or tag"))
    def branch(self, build: Build) -> str:
        """What was asked for."""
        return build.source_ref or display.NOTHING

    @admin.display(description=gettext_lazy("Commit"))
    def commit(self, build: Build) -> display.Shown:
        """What it was built from."""
        return repositories.commit(build.github_url, build.commit_hash)

    @admin.display(description=gettext_lazy("Secret for it"))
    def token_name(self, build: Build) -> str:
        """The name of the secret of its owner that holds the token."""
        return build.source_secret or display.NOTHING

    @admin.display(description=gettext_lazy("Stored as"))
    def stored(self, build: Build) -> display.Shown:
        """The source's name in the source storage."""
        return display.mono(build.source_key)

    @admin.display(description=gettext_lazy("Checksum (SHA-256)"))
    def checksum(self, build: Build) -> display.Shown:
        """What the source is known by."""
        return display.mono(build.source_sha256)

    @admin.display(description=gettext_lazy("Size"))
    def size(self, build: Build) -> str:
        """How large the source is, packed."""
        size = build.source_size
        return display.NOTHING if size is None else filesizeformat(size)

    @admin.display(description=gettext_lazy("Asked for by"))
    def asked_by(self, build: Build) -> str:
        """Who asked for it."""
        return people.shown(build.triggered_by)

    @admin.display(description=gettext_lazy("Host"))
    def on_host(self, build: Build) -> str:
        """The machine that it was built on."""
        return build.host or display.NOTHING

    @admin.display(description=gettext_lazy("Created"))
    def created(self, build: Build) -> display.Shown:
        """How long ago it was asked for."""
        return moments.ago(build.created_at)

    @admin.display(description=gettext_lazy("Took"))
    def lasted(self, build: Build) -> str:
        """How long it took, until now when it has not ended."""
        return moments.between(build.created_at, build.completed_at)

    @admin.display(description=gettext_lazy("Made"))
    def made(self, build: Any) -> display.Shown:
        """What can be run."""
        if isinstance(build, AgentBuild):
            return display.mono(build.image_reference)
        return display.mono(build.image_tag)

    @admin.display(description=gettext_lazy("Last lines"))
    def last_lines(self, build: Build) -> display.Shown:
        """What it printed last."""
        return display.block(build.logs)


def _fieldsets(target: str, *more: str) -> tuple[Any, ...]:
    return (
        (None, {"fields": (target, *HAPPENED)}),
        (gettext_lazy("Source"), {"fields": SOURCE}),
        (gettext_lazy("About it"), {"fields": (*ASKED, "made", *more)}),
        (gettext_lazy("Output"), {"fields": ("last_lines",)}),
    )


def _columns(target: str) -> tuple[str, ...]:
    return (
        "short_id",
        target,
        "made_version",
        "state",
        "step",
        "error",
        "job_link",
        "created",
        "lasted",
    )


@admin.register(AgentBuild)
class AgentBuildAdmin(BuildColumns):
    """Builds of agents, newest first."""

    list_display = _columns("agent")
    list_select_related = ("agent",)
    allowed_lookups = frozenset({"status__exact", "agent"})
    search_fields = ("agent__name__startswith",)
    fieldsets = _fieldsets("agent")


@admin.register(McpConnectorBuild)
class McpConnectorBuildAdmin(BuildColumns):
    """Builds of connectors, newest first."""

    list_display = _columns("connector")
    list_select_related = ("connector",)
    allowed_lookups = frozenset({"status__exact", "connector"})
    search_fields = ("connector__name__startswith",)
    fieldsets = _fieldsets("connector", "detected_runtime")
