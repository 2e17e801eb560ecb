"""Proposals: updates that watches have found, those that wait for a person first."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import Proposal
from ..states import ProposalStatus
from . import display, moments, repositories
from .acts import ActingAdmin
from .watchacts import PROPOSAL_ACTS

FOR_PEOPLE = Q(status=ProposalStatus.OPEN, agent__deleted_at__isnull=True)


class ProposalStatusFilter(admin.SimpleListFilter):
    """What waits for a person, unless one status or all are asked for."""

    title = gettext_lazy("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Offer all, then each status."""
        return [("all", _("all")), *ProposalStatus.choices]

    def choices(self, changelist: Any) -> Any:
        """Call the default by what it shows."""
        first, *rest = super().choices(changelist)
        return [{**first, "display": _("waiting for a person")}, *rest]

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[Proposal]
    ) -> QuerySet[Proposal]:
        """Narrow the list."""
        value = self.value()
        if value in ProposalStatus.values:
            return queryset.filter(status=value)
        return queryset if value else queryset.filter(FOR_PEOPLE)


@admin.register(Proposal)
class ProposalAdmin(ActingAdmin):
    """Proposals, newest first."""

    acts = PROPOSAL_ACTS
    change_form_template = "admin/buildqueue/related_change_form.html"
    list_display = ("short_commit", "agent", "branch", "state", "decided", "created")
    list_filter = (ProposalStatusFilter,)
    allowed_lookups = frozenset({"status", "agent", "watch"})
    ordering = ("-created_at", "-id")
    search_fields = ("agent__name__startswith", "commit_hash__startswith")
    fields = (
        "agent",
        "state",
        "told",
        "commit",
        "repository",
        "of_watch",
        "job_link",
        "decided",
        "decided_when",
        "created",
    )
    readonly_fields = tuple(name for name in fields if name != "agent")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Proposal]:
        """Return the proposals with agent and watch."""
        found: QuerySet[Proposal] = super().get_queryset(request)
        return found.select_related("agent", "watch").defer("agent__secrets_env")

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Add the buttons."""
        proposal = kwargs.get("obj")
        if isinstance(proposal, Proposal):
            context["buttons"] = self.buttons(request, proposal)
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=gettext_lazy("Commit"))
    def short_commit(self, proposal: Proposal) -> display.Shown:
        """The letters that people tell it by."""
        return display.mono(proposal.commit_hash[:12])

    @admin.display(description=gettext_lazy("Commit"))
    def commit(self, proposal: Proposal) -> display.Shown:
        """What would be built."""
        return repositories.commit(proposal.watch.git_url, proposal.commit_hash)

    @admin.display(description=gettext_lazy("Repository"))
    def repository(self, proposal: Proposal) -> display.Shown:
        """Where it was found."""
        return repositories.repository(proposal.watch.git_url)

    @admin.display(description=gettext_lazy("Branch or tag"))
    def branch(self, proposal: Proposal) -> str:
        """What its watch follows."""
        return str(proposal.watch.ref)

    @admin.display(description=gettext_lazy("Watch"))
    def of_watch(self, proposal: Proposal) -> display.Shown:
        """The watch that found it; the link asks its page for permission."""
        address = self.admin_url("sourcewatch_change", proposal.watch_id)
        return display.link(address, proposal.watch.ref)

    @admin.display(description=gettext_lazy("Summary"))
    def told(self, proposal: Proposal) -> str:
        """What the watch says of it."""
        return proposal.summary or display.NOTHING

    @admin.display(description=gettext_lazy("Status"))
    def state(self, proposal: Proposal) -> display.Shown:
        """Icon and word."""
        return display.badge(proposal.status, proposal.get_status_display())

    @admin.display(description=gettext_lazy("Job"))
    def job_link(self, proposal: Proposal) -> display.Shown:
        """The job of the update; the link asks the job's page for permission."""
        if proposal.job_id is None:
            return display.NOTHING
        address = self.admin_url("buildjob_change", proposal.job_id)
        return display.link(address, display.short(proposal.job_id))

    @admin.display(description=gettext_lazy("Decided by"))
    def decided(self, proposal: Proposal) -> str:
        """Who decided."""
        return proposal.decided_by or display.NOTHING

    @admin.display(description=gettext_lazy("Decided"))
    def decided_when(self, proposal: Proposal) -> display.Shown:
        """How long ago it was decided."""
        return moments.ago(proposal.decided_at)

    @admin.display(description=gettext_lazy("Proposed"))
    def created(self, proposal: Proposal) -> display.Shown:
        """How long ago it was found."""
        return moments.ago(proposal.created_at)
