"""Watches: which branches and tags are followed, how each check went, and the verbs."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..builds.watchchecks import MOST_FAILURES
from ..models import SourceWatch
from ..states import WatchStatus
from . import display, moments, parts, people, repositories
from .acts import ActingAdmin
from .related import latest
from .watchacts import WATCH_ACTS

# What a person has to look at: a watch that was given up.
GIVEN_UP = Q(
    status=WatchStatus.PAUSED,
    failures__gte=MOST_FAILURES,
    agent__deleted_at__isnull=True,
)


class WatchStatusFilter(admin.SimpleListFilter):
    """One status, or those that were paused because their checks failed."""

    title = gettext_lazy("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Offer each status, then what waits for a person."""
        return [*WatchStatus.choices, ("given_up", _("paused by failures"))]

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[SourceWatch]
    ) -> QuerySet[SourceWatch]:
        """Narrow the list."""
        value = self.value()
        if value == "given_up":
            return queryset.filter(GIVEN_UP)
        return (
            queryset.filter(status=value) if value in WatchStatus.values else queryset
        )


@admin.register(SourceWatch)
class SourceWatchAdmin(ActingAdmin):
    """Watches, newest first."""

    acts = WATCH_ACTS
    change_form_template = "admin/buildqueue/related_change_form.html"
    list_display = ("ref", "agent", "repository", "state", "does", "fails", "checked")
    list_filter = (WatchStatusFilter,)
    list_select_related = ("agent",)
    allowed_lookups = frozenset({"status", "agent"})
    ordering = ("-created_at", "-id")
    search_fields = ("agent__name__startswith", "git_url")
    fields = (
        "agent",
        "repository",
        "branch",
        "state",
        "fails",
        "checked",
        "next_check",
        "seen",
        "does",
        "step",
        "every",
        "token_name",
        "made_by",
        "created",
        "why_paused",
        "last_fault",
    )
    readonly_fields = tuple(name for name in fields if name != "agent")

    def get_queryset(self, request: HttpRequest) -> QuerySet[SourceWatch]:
        """Return the watches with their agents, whose state the verbs depend on."""
        watches: QuerySet[SourceWatch] = super().get_queryset(request)
        return watches.select_related("agent").defer("agent__secrets_env")

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Add the buttons and what it has proposed."""
        watch = kwargs.get("obj")
        if isinstance(watch, SourceWatch):
            context["buttons"] = self.buttons(request, watch)
            context["related"] = [latest(self, request, parts.proposals_of(watch))]
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=gettext_lazy("Repository"))
    def repository(self, watch: SourceWatch) -> display.Shown:
        """What is asked."""
        return repositories.repository(watch.git_url)

    @admin.display(description=gettext_lazy("Branch or tag"))
    def branch(self, watch: SourceWatch) -> str:
        """What is followed."""
        return watch.ref

    @admin.display(description=gettext_lazy("Status"))
    def state(self, watch: SourceWatch) -> display.Shown:
        """Icon and word."""
        return display.badge(watch.status, watch.get_status_display())

    @admin.display(description=gettext_lazy("Why paused"))
    def why_paused(self, watch: SourceWatch) -> str:
        """Who or what has paused it."""
        return watch.pause_reason or display.NOTHING

    @admin.display(description=gettext_lazy("Last error"))
    def last_fault(self, watch: SourceWatch) -> str:
        """Why the last check that failed did."""
        return watch.last_error or display.NOTHING

    @admin.display(description=gettext_lazy("Failures in a row"))
    def fails(self, watch: SourceWatch) -> str:
        """How often it failed since it last went well."""
        return f"{watch.failures}/{MOST_FAILURES}" if watch.failures else "0"

    @admin.display(description=gettext_lazy("Checked"))
    def checked(self, watch: SourceWatch) -> display.Shown:
        """How long ago it was asked."""
        return moments.ago(watch.checked_at)

    @admin.display(description=gettext_lazy("Next check"))
    def next_check(self, watch: SourceWatch) -> display.Shown:
        """When it is asked again, unless it is paused."""
        paused = watch.status == WatchStatus.PAUSED
        return display.NOTHING if paused else moments.ago(watch.due_at)

    @admin.display(description=gettext_lazy("Commit seen last"))
    def seen(self, watch: SourceWatch) -> display.Shown:
        """Where the branch was at the last check."""
        return repositories.commit(watch.git_url, watch.last_commit)

    @admin.display(description=gettext_lazy("A new commit"))
    def does(self, watch: SourceWatch) -> str:
        """What is done about a new commit."""
        return watch.get_mode_display()

    @admin.display(description=gettext_lazy("New version"))
    def step(self, watch: SourceWatch) -> str:
        """Which number of the version goes up."""
        return _("the next %(step)s") % {"step": watch.bump}

    @admin.display(description=gettext_lazy("Checked every"))
    def every(self, watch: SourceWatch) -> str:
        """How often it is asked."""
        return moments.about(watch.interval_minutes * 60)

    @admin.display(description=gettext_lazy("Secret for it"))
    def token_name(self, watch: SourceWatch) -> str:
        """The name of the owner's secret that holds the token."""
        return watch.secret_name or display.NOTHING

    @admin.display(description=gettext_lazy("Made by"))
    def made_by(self, watch: SourceWatch) -> str:
        """Who made it."""
        return people.shown(watch.created_by)

    @admin.display(description=gettext_lazy("Created"))
    def created(self, watch: SourceWatch) -> display.Shown:
        """How long ago it was made."""
        return moments.ago(watch.created_at)
