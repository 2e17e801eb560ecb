"""Agents: what is there, what each wants and has, what failed, and the verbs.

The verbs are those of `builds`; the pages only ask for them. Of an environment the names
are shown: neither a value nor its ciphertext.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import Agent
from ..states import AgentStatus
from . import display, moments, parts, people, wishes
from .acts import ActingAdmin
from .agentacts import AGENT_ACTS
from .changelist import OwnedChangeList
from .filters import DeletedFilter
from .related import latest


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
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "state",
                    "address",
                    "active",
                    "owner",
                    "created",
                    "deleted",
                )
            },
        ),
        (
            gettext_lazy("What it wants"),
            {
                "fields": (
                    "wanted_ports",
                    "copies",
                    "limits",
                    "writes_to",
                    "variables",
                )
            },
        ),
        (
            gettext_lazy("About it"),
            {
                "fields": (
                    "display_name",
                    "tags",
                    "everybody",
                    "description",
                    "image_name",
                )
            },
        ),
    )
    readonly_fields = (
        "state",
        "address",
        "active",
        "owner",
        "created",
        "wanted_ports",
        "copies",
        "limits",
        "writes_to",
        "variables",
        "image_name",
        "everybody",
        "deleted",
    )

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list that knows the owners' names."""
        return OwnedChangeList

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Add the buttons and what belongs to the agent, what waits for a person first."""
        agent = kwargs.get("obj")
        if isinstance(agent, Agent):
            context["buttons"] = self.buttons(request, agent)
            mine = (
                parts.open_proposals(agent),
                parts.versions(agent),
                parts.deployments(agent),
                parts.builds(agent),
                parts.jobs(agent=agent.pk),
                parts.watches(agent),
                parts.grants(agent),
            )
            context["related"] = [latest(self, request, part) for part in mine]
        return super().render_change_form(request, context, *args, **kwargs)

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

    @admin.display(description=gettext_lazy("Active version"))
    def active(self, agent: Agent) -> display.Shown:
        """The version that runs, or would be started."""
        found = agent.versions.filter(is_active=True).first()
        return found.version if found else _("none yet")

    @admin.display(description=gettext_lazy("Owner"))
    def owner(self, agent: Agent) -> str:
        """Whose it is."""
        return people.owner_of(agent)

    @admin.display(description=gettext_lazy("Created"))
    def created(self, agent: Agent) -> display.Shown:
        """How long ago it was registered."""
        return moments.ago(agent.created_at)

    @admin.display(description=gettext_lazy("Deleted"))
    def deleted(self, agent: Agent) -> display.Shown:
        """How long ago it was deleted."""
        return moments.ago(agent.deleted_at)

    @admin.display(description=gettext_lazy("Seen by everybody"))
    def everybody(self, agent: Agent) -> str:
        """Whether it is opened to all users."""
        return display.yes(agent.is_public)

    @admin.display(description=gettext_lazy("Ports"))
    def wanted_ports(self, agent: Agent) -> str:
        """What its owner asked for."""
        return wishes.ports(agent.ports)

    @admin.display(description=gettext_lazy("Copies"))
    def copies(self, agent: Agent) -> str:
        """How many of it run side by side."""
        return str(agent.replicas)

    @admin.display(description=gettext_lazy("Limits of each copy"))
    def limits(self, agent: Agent) -> str:
        """Memory, processors and processes."""
        return wishes.limits(agent.resources)

    @admin.display(description=gettext_lazy("Keeps files"))
    def writes_to(self, agent: Agent) -> str:
        """Whether it has a folder that outlives its instances."""
        return wishes.writable(agent)

    @admin.display(description=gettext_lazy("Environment"))
    def variables(self, agent: Agent) -> str:
        """The names alone."""
        return display.names(agent.secrets_env)

    @admin.display(description=gettext_lazy("Image"))
    def image_name(self, agent: Agent) -> display.Shown:
        """What it is run from."""
        return display.mono(agent.image)
