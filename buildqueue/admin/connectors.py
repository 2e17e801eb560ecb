"""MCP connectors: where each answers, which tools it has, how it was built and crashed.

Ciphertext and headers are never shown; names alone say what is set.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import McpConnector
from . import display, moments, parts, people
from .acts import ActingAdmin
from .changelist import OwnedChangeList
from .domainacts import CONNECTOR_ACTS
from .filters import DeletedFilter
from .masking import masked
from .related import latest


@admin.register(McpConnector)
class McpConnectorAdmin(ActingAdmin):
    """Connectors, newest first."""

    acts = CONNECTOR_ACTS
    change_form_template = "admin/buildqueue/related_change_form.html"
    list_display = (
        "name",
        "state",
        "provider_type",
        "source_kind",
        "owner",
        "address",
        "created",
    )
    list_filter = ("build_status", "provider_type", DeletedFilter)
    allowed_lookups = frozenset(
        {"build_status__exact", "provider_type__exact", "deleted"}
    )
    ordering = ("-created_at", "-id")
    search_fields = ("name__startswith", "owner_id")
    fieldsets = (
        (
            None,
            {"fields": ("state", "address", "owner", "created", "deleted_at")},
        ),
        (
            gettext_lazy("How it runs"),
            {
                "fields": (
                    "restart_count",
                    "crash",
                    "crashed",
                    "host",
                    "runtime",
                    "image",
                    "variables",
                    "last_output",
                )
            },
        ),
        (
            gettext_lazy("About it"),
            {
                "fields": (
                    "provider_type",
                    "source_kind",
                    "transport",
                    "auth_type",
                    "display_name",
                    "description",
                    "setup_status",
                    "setup_error",
                    "is_active",
                )
            },
        ),
    )
    printed = frozenset({"last_output"})
    readonly_fields = (
        "state",
        "address",
        "owner",
        "created",
        "crash",
        "crashed",
        "image",
        "variables",
        "last_output",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[McpConnector]:
        """Read no ciphertext that has no names to show, and no output for a list."""
        rows: QuerySet[McpConnector] = super().get_queryset(request)
        return rows.defer("oauth_client_secret", "last_logs")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list that knows the owners' names."""
        return OwnedChangeList

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Add the buttons, its tools, and what else belongs to the connector."""
        connector = kwargs.get("obj")
        if isinstance(connector, McpConnector):
            context["buttons"] = self.buttons(request, connector)
            mine = (
                parts.tools(connector),
                parts.connector_builds(connector),
                parts.jobs(connector=connector.pk),
            )
            context["related"] = [latest(self, request, part) for part in mine]
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=gettext_lazy("Status"))
    def state(self, connector: McpConnector) -> display.Shown:
        """Icon and word: of its build, or of its set-up elsewhere."""
        if connector.deleted_at:
            return display.badge("stopped", _("deleted"))
        if connector.build_status:
            return display.badge(
                connector.build_status, connector.get_build_status_display()
            )
        return display.badge(
            connector.setup_status, connector.get_setup_status_display()
        )

    @admin.display(description=gettext_lazy("Address"))
    def address(self, connector: McpConnector) -> display.Shown:
        """Where it answers."""
        return display.outside(masked(connector.url or ""))

    @admin.display(description=gettext_lazy("Owner"))
    def owner(self, connector: McpConnector) -> str:
        """Whose it is."""
        return people.owner_of(connector)

    @admin.display(description=gettext_lazy("Created"))
    def created(self, connector: McpConnector) -> display.Shown:
        """How long ago it was made."""
        return moments.ago(connector.created_at)

    @admin.display(description=gettext_lazy("Crash reason"))
    def crash(self, connector: McpConnector) -> display.Shown:
        """Why it does not stay up, or did not last."""
        return display.block(connector.crash_reason)

    @admin.display(description=gettext_lazy("Crashed"))
    def crashed(self, connector: McpConnector) -> display.Shown:
        """How long ago it was given up as crashed."""
        return moments.ago(connector.crashed_at)

    @admin.display(description=gettext_lazy("Image"))
    def image(self, connector: McpConnector) -> display.Shown:
        """What it is run from."""
        return display.mono(connector.container_image_tag)

    @admin.display(description=gettext_lazy("Environment and headers"))
    def variables(self, connector: McpConnector) -> str:
        """The names alone."""
        return display.names(
            [*(connector.build_secrets_env or {}), *(connector.headers or {})]
        )

    @admin.display(description=gettext_lazy("Last output"))
    def last_output(self, connector: McpConnector) -> display.Shown:
        """What it printed before it crashed."""
        return display.block(connector.last_logs)
