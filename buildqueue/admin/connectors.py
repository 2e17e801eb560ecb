"""MCP connectors: who runs each, in which state it is, which builds it had.

Ciphertext and headers are never shown; names alone say what is set.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import BuildJob, McpConnector, McpConnectorBuild
from . import display, moments, people
from .base import ReadOnlyAdmin
from .changelist import OwnedChangeList
from .filters import DeletedFilter
from .masking import masked
from .related import latest


@admin.register(McpConnector)
class McpConnectorAdmin(ReadOnlyAdmin):
    """Connectors, newest first."""

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
    fields = (
        "state",
        "address",
        "provider_type",
        "source_kind",
        "transport",
        "auth_type",
        "display_name",
        "description",
        "owner",
        "container_image_tag",
        "setup_status",
        "setup_error",
        "secret_names",
        "is_active",
        "created",
        "deleted_at",
    )
    readonly_fields = ("state", "address", "owner", "created", "secret_names")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list that knows the owners' names."""
        return OwnedChangeList

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Add what belongs to the connector."""
        connector = kwargs.get("obj")
        if isinstance(connector, McpConnector):
            mine = {"connector": connector.pk}
            context["related"] = [
                latest(self, request, model, mine)
                for model in (BuildJob, McpConnectorBuild)
            ]
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=gettext_lazy("Status"))
    def state(self, connector: McpConnector) -> display.Shown:
        """Icon and word: of its build, or of its set-up elsewhere."""
        if connector.deleted_at:
            return display.badge("stopped", _("deleted"))
        return display.badge(connector.build_status or connector.setup_status)

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

    @admin.display(description=gettext_lazy("Secrets"))
    def secret_names(self, connector: McpConnector) -> str:
        """The names alone, of its build's environment and of its headers."""
        names = {*(connector.build_secrets_env or {}), *(connector.headers or {})}
        return ", ".join(sorted(names)) or display.NOTHING
