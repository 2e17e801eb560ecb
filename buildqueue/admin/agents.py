"""Agents, their versions and deployments: what is there, where it runs, what failed.

Stopping and deleting are verbs of `builds/retirement.py`; the pages only ask for them.
Ciphertext is never shown, only which names it has.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import Agent, AgentBuild, AgentDeployment, AgentVersion, BuildJob
from ..states import AgentStatus
from . import display, moments, people
from .acts import ActingAdmin
from .changelist import OwnedChangeList
from .domainacts import AGENT_ACTS
from .filters import DeletedFilter
from .related import Related, latest


@admin.register(Agent)
class AgentAdmin(ActingAdmin):
    """Agents, newest first."""

    acts = AGENT_ACTS
    change_form_template = "admin/buildqueue/related_change_form.html"
    list_display = ("name", "state", "version", "owner", "address", "created")
    list_filter = ("status", DeletedFilter)
    allowed_lookups = frozenset({"status__exact", "deleted"})
    ordering = ("-created_at", "-id")
    search_fields = ("name__startswith", "owner_id")
    fields = (
        "state",
        "address",
        "version",
        "display_name",
        "description",
        "owner",
        "image",
        "tags",
        "secret_names",
        "is_public",
        "writable_path",
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
        """Add the buttons and what belongs to the agent."""
        agent = kwargs.get("obj")
        if isinstance(agent, Agent):
            context["buttons"] = self.buttons(request, agent)
            context["related"] = self._related(request, agent)
        return super().render_change_form(request, context, *args, **kwargs)

    def _related(self, request: HttpRequest, agent: Agent) -> list[Related]:
        models = (BuildJob, AgentVersion, AgentDeployment, AgentBuild)
        return [latest(self, request, model, {"agent": agent.pk}) for model in models]

    @admin.display(description=gettext_lazy("Status"))
    def state(self, agent: Agent) -> display.Shown:
        """Icon and word."""
        if agent.deleted_at:
            return display.badge("stopped", _("deleted"))
        return display.badge(agent.status, agent.get_status_display())

    @admin.display(description=gettext_lazy("Address"))
    def address(self, agent: Agent) -> display.Shown:
        """Its one address for life; a link while something may answer there."""
        if agent.url and agent.deleted_at:
            return _("%(address)s (gone)") % {"address": agent.url}
        if agent.url and agent.status == AgentStatus.STOPPED:
            return _("%(address)s (reserved)") % {"address": agent.url}
        return display.outside(agent.url)

    @admin.display(description=gettext_lazy("Owner"))
    def owner(self, agent: Agent) -> str:
        """Whose it is."""
        return people.owner_of(agent)

    @admin.display(description=gettext_lazy("Created"))
    def created(self, agent: Agent) -> display.Shown:
        """How long ago it was registered."""
        return moments.ago(agent.created_at)

    @admin.display(description=gettext_lazy("Secrets"))
    def secret_names(self, agent: Agent) -> str:
        """The names alone."""
        return ", ".join(sorted(agent.secrets_env or {})) or display.NOTHING
